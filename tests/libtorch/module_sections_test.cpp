// Checkpoint sections that modules accept, and those that they reject.
#include "tests/support/failure_text.hpp"
#include <ddprun/torch/checkpoint.hpp>

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

namespace module_sections_test {

using ddprun::Checkpoint;
using ddprun::test::describe_failure;
using ddprun::torch::get_module;
using ddprun::torch::put_module;
using ddprun::torch::put_optimizer;
using torch::nn::Linear;
using torch::nn::LinearOptions;
using torch::nn::Sequential;

namespace {

Checkpoint with_module(const torch::nn::Module& module) {
  Checkpoint checkpoint;
  put_module(checkpoint, "net", module);
  return checkpoint;
}

std::vector<torch::Tensor> copies_of(const std::vector<torch::Tensor>& tensors) {
  std::vector<torch::Tensor> copies;
  for (const auto& tensor : tensors) copies.push_back(tensor.detach().clone());
  return copies;
}

/// Returns the error; the module must be unchanged.
std::string refusal(const Checkpoint& checkpoint, torch::nn::Module& module) {
  const auto names = module.named_parameters().keys();
  const auto before = copies_of(module.parameters());
  const auto message = describe_failure([&] { get_module(checkpoint, "net", module); });
  CHECK(module.named_parameters().keys() == names);
  const auto after = module.parameters();
  for (std::size_t i = 0; i < before.size(); ++i) CHECK(after[i].equal(before[i]));
  return message;
}

/// A module that saves additional lines; the constructor sets their number.
struct Diary : torch::nn::Module {
  explicit Diary(int count) : entries(count) { layer = register_module("layer", Linear(2, 2)); }
  void save(torch::serialize::OutputArchive& archive) const override {
    Module::save(archive);
    for (int i = 0; i < entries; ++i) archive.write("entry" + std::to_string(i), torch::tensor(i));
  }
  void load(torch::serialize::InputArchive& archive) override {
    Module::load(archive);
    entries = 0;
    torch::Tensor entry;
    while (archive.try_read("entry" + std::to_string(entries), entry)) ++entries;
  }

  int entries;
  Linear layer{nullptr};
};

}  // namespace

TEST_SUITE("modules' sections of checkpoints") {
  TEST_CASE("module sections: a larger or smaller module's section is rejected") {
    Sequential two(Linear(2, 3), Linear(3, 2));
    Sequential one(Linear(2, 3));
    CHECK(refusal(with_module(*two), *one) ==
          "usage: checkpoint section \"net\" has \"1.weight\", Float[2, 3] and 1 more, which the "
          "module has not");
    CHECK(refusal(with_module(*one), *two) ==
          "usage: checkpoint section \"net\" lacks \"1.weight\" of the module, Float[2, 3] and 1 "
          "more");
  }

  TEST_CASE("module sections: a tensor that the module omits is rejected") {
    Linear with_bias(2, 3);
    Linear without(LinearOptions(2, 3).bias(false));
    CHECK(refusal(with_module(*with_bias), *without) ==
          "usage: checkpoint section \"net\" has \"bias\", Float[3], which the module has not");
    CHECK_FALSE(without->bias.defined());
    CHECK(refusal(with_module(*without), *with_bias) ==
          "usage: checkpoint section \"net\" lacks \"bias\" of the module, Float[3]");
  }

  TEST_CASE("module sections: other shapes and types are rejected") {
    Linear small(3, 2);
    Linear large(3, 4);
    CHECK(refusal(with_module(*small), *large) ==
          "usage: checkpoint section \"net\" has Float[2, 3] for \"weight\", which is Float[4, 3]");
    Linear twice(3, 2);
    twice->to(torch::kFloat64);
    CHECK(refusal(with_module(*small), *twice) ==
          "usage: checkpoint section \"net\" has Float[2, 3] for \"weight\", which is Double[2, "
          "3]");
    CHECK(refusal(with_module(*twice), *small) ==
          "usage: checkpoint section \"net\" has Double[2, 3] for \"weight\", which is Float[2, "
          "3]");
    torch::nn::BatchNorm1d norm(2);
    CHECK(refusal(with_module(*small), *norm) ==
          "usage: checkpoint section \"net\" lacks \"running_mean\" of the module, Float[2] and 2 "
          "more");
  }

  TEST_CASE("module sections: sections that are not LibTorch's are rejected") {
    Linear layer(3, 2);
    Checkpoint checkpoint;
    CHECK(refusal(checkpoint, *layer) == "usage: checkpoint section \"net\" is missing");
    ddprun::put_section(checkpoint, "net", std::string("no archive"));
    CHECK(refusal(checkpoint, *layer)
              .starts_with("usage: checkpoint section \"net\" is not LibTorch's: "));
    torch::optim::SGD optimizer(layer->parameters(), 0.1);
    put_optimizer(checkpoint, "net", optimizer);
    CHECK(refusal(checkpoint, *layer) ==
          "usage: checkpoint section \"net\" lacks \"weight\" of the module, Float[2, 3] and 1 "
          "more");
  }

  TEST_CASE("module sections: data neither saved nor loaded is not required") {
    const auto make = [] {
      Sequential net(Linear(2, 3), torch::nn::Functional(torch::relu),
                     torch::nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(3).affine(false)));
      net->push_back(Linear(LinearOptions(3, 2).bias(false)));
      return net;
    };
    Sequential saved = make();
    Sequential loaded = make();
    get_module(with_module(*saved), "net", *loaded);
    CHECK(loaded[0]->as<Linear>()->weight.equal(saved[0]->as<Linear>()->weight));
  }

  TEST_CASE("module sections: a custom save() can write more and vary") {
    Diary full(3);
    Diary empty(1);
    get_module(with_module(full), "net", empty);
    CHECK(empty.entries == 3);
    CHECK(empty.layer->weight.equal(full.layer->weight));
    Linear layer(2, 2);
    CHECK(refusal(with_module(*layer), full).find("lacks \"layer.weight\"") != std::string::npos);
  }
}

}  // namespace module_sections_test
