// Modules that are not just a sequence of layers.
#include "tests/libtorch/net.hpp"
#include "tests/support/rank_threads.hpp"
#include <ddprun/torch.hpp>

#include <doctest/doctest.h>

namespace unusual_modules_test {

using ddprun::ProcessGroup;
using ddprun::test::make_batch;
using ddprun::test::make_nets;
using ddprun::test::of;
using ddprun::test::run_ranks;
using ddprun::torch::ddp_defaults;
using ddprun::torch::DistributedDataParallel;

namespace {

/// Three scalars; an argument selects those that a forward pass uses.
struct Branches : torch::nn::Module {
  Branches() {
    for (const char* name : {"a", "b", "c"}) register_parameter(name, torch::ones({}));
  }

  torch::Tensor forward(const std::vector<std::string>& used, float factor) {
    auto sum = torch::zeros({});
    for (const auto& name : used) sum = sum + factor * named_parameters()[name];
    return sum;
  }

  torch::Tensor gradient(const std::string& name) { return named_parameters()[name].grad(); }
};

float value(const torch::Tensor& tensor) {
  return tensor.item<float>();
}

}  // namespace

TEST_SUITE("unusual modules") {
  TEST_CASE("unusual modules: mixed types and frozen and shared parameters are supported") {
    struct Mixed : torch::nn::Module {
      Mixed() {
        single = register_parameter("single", torch::ones({3}));
        twice = register_parameter("twice", torch::ones({3}, torch::kFloat64));
        register_parameter("half", torch::ones({2, 2}, torch::kBFloat16));
        register_parameter("again", single);
        frozen = register_parameter("frozen", torch::ones({3}), /*requires_grad=*/false);
        flags = register_buffer("flags", torch::zeros({2}, torch::kBool));
      }
      torch::Tensor forward(float factor) {
        const auto& named = named_parameters();
        return (factor * (single * frozen).sum() + factor * twice.sum() +
                factor * named["again"].sum() + factor * named["half"].sum().to(torch::kFloat64));
      }
      torch::Tensor single, twice, frozen, flags;
    };
    run_ranks(2, [](ProcessGroup& group) {
      Mixed module;
      {
        const torch::NoGradGuard no_graph;
        module.frozen.fill_(group.rank() + 5);
        module.flags.fill_(group.rank() == 0);
      }
      DistributedDataParallel model(module, group);
      CHECK(module.frozen.equal(torch::full({3}, 5.0F)));
      CHECK(module.flags.equal(torch::ones({2}, torch::kBool)));
      model.forward(static_cast<float>(group.rank() + 1)).backward();
      CHECK(module.single.grad().equal(torch::full({3}, 9.0F)));  // 1.5 * 5 + 1.5
      CHECK(module.twice.grad().equal(torch::full({3}, 1.5, torch::kFloat64)));
      CHECK(module.named_parameters()["half"].grad().equal(
          torch::full({2, 2}, 1.5, torch::kBFloat16)));
      CHECK_FALSE(module.frozen.grad().defined());
    });
  }

  TEST_CASE("unusual modules: gradients have the memory format of their weights") {
    run_ranks(2, [](ProcessGroup& group) {
      torch::nn::Conv2d layer(torch::nn::Conv2dOptions(3, 4, 2).bias(false));
      layer->weight.set_data(layer->weight.to(torch::MemoryFormat::ChannelsLast));
      DistributedDataParallel model(layer, group);
      const auto input = torch::full({1, 3, 2, 2}, static_cast<float>(group.rank()));
      model.forward(input).sum().backward();
      const auto gradient = layer->weight.grad();
      CHECK(gradient.strides() == layer->weight.strides());
      CHECK(gradient.equal(torch::full({4, 3, 2, 2}, 0.5F)));
    });
  }

  TEST_CASE(
      "unusual modules: rank 0's buffers are broadcast before forward passes with gradients") {
    run_ranks(2, [](ProcessGroup& group) {
      torch::nn::BatchNorm1d norm(torch::nn::BatchNormOptions(1));
      DistributedDataParallel model(norm, group);
      const auto rank = static_cast<float>(group.rank());
      const auto step = [&] { model.forward(torch::full({4, 1}, rank)).sum().backward(); };
      step();
      CHECK(norm->running_mean.item<float>() == doctest::Approx(0.1F * rank));
      if (group.rank() == 1) {
        // It evaluates without the other ranks.
        const torch::NoGradGuard no_graph;
        norm->eval();
        model.forward(torch::zeros({4, 1}));
        norm->train();
      }
      step();
      CHECK(norm->running_mean.item<float>() == doctest::Approx(0.1F * rank));
    });
  }

  TEST_CASE("unusual modules: only parameters unused on all ranks have no gradient") {
    run_ranks(2, [](ProcessGroup& group) {
      Branches module;
      auto options = ddp_defaults();
      options.find_unused_parameters = true;
      DistributedDataParallel model(module, group, options);
      const auto step = [&](const std::vector<std::string>& on_0,
                            const std::vector<std::string>& on_1) {
        model.forward(group.rank() == 0 ? on_0 : on_1, 4.0F).backward();
      };
      step({"a"}, {"a", "b"});
      CHECK(value(module.gradient("a")) == 4);
      CHECK(value(module.gradient("b")) == 2);
      CHECK_FALSE(module.gradient("c").defined());

      // Existing values are kept, and averaged once more.
      step({"c"}, {"c"});
      CHECK(value(module.gradient("a")) == 4);
      CHECK(value(module.gradient("b")) == 2);
      CHECK(value(module.gradient("c")) == 4);

      model.zero_grad();
      {
        const auto guard = model.no_sync();
        step({"b"}, {"a"});
      }
      step({"b"}, {"b"});
      CHECK(value(module.gradient("a")) == 2);
      CHECK(value(module.gradient("b")) == 6);
      CHECK_FALSE(module.gradient("c").defined());

      // Accumulated and then discarded values do not count.
      {
        const auto guard = model.no_sync();
        step({"c"}, {"c"});
      }
      model.zero_grad();
      step({"a", "c"}, {"a"});
      CHECK(value(module.gradient("c")) == 2);
      {
        const auto guard = model.no_sync();
        step({"b", "c"}, {"b"});
      }
      model.zero_grad();
      step({"a"}, {"a"});
      CHECK_FALSE(module.gradient("b").defined());
      CHECK_FALSE(module.gradient("c").defined());
    });
  }

  TEST_CASE("unusual modules: a static graph knows unused parameters after its first step") {
    run_ranks(2, [](ProcessGroup& group) {
      Branches module;
      auto options = ddp_defaults();
      options.static_graph = true;
      DistributedDataParallel model(module, group, options);
      for (int step = 0; step < 3; ++step) {
        model.zero_grad();
        const std::vector<std::string> used =
            group.rank() == 0 ? std::vector<std::string>{"a"} : std::vector<std::string>{"a", "b"};
        model.forward(used, 4.0F).backward();
        CHECK(value(module.gradient("a")) == 4);
        CHECK(value(module.gradient("b")) == 2);
        CHECK_FALSE(module.gradient("c").defined());
      }
    });
  }

  TEST_CASE("unusual modules: a rank with fewer batches joins and gets the final parameters") {
    auto nets = make_nets(2);
    const auto batch = make_batch(8);
    std::vector<torch::Tensor> last(2);
    run_ranks(2, [&](ProcessGroup& group) {
      auto options = ddp_defaults();
      options.uneven_inputs = ddprun::UnevenInputs::average_over_all;
      auto& net = of(nets, group);
      DistributedDataParallel model(net, group, options);
      torch::optim::SGD optimizer(net->parameters(), 0.1);
      for (int step = 0; step < 2 + group.rank(); ++step) {
        optimizer.zero_grad();
        ddprun::test::backward(model, batch.part(group.rank(), 2));
        optimizer.step();
      }
      model.join();
      of(last, group) = net->first->weight.detach().clone();
    });
    CHECK(last[0].equal(last[1]));
  }
}

}  // namespace unusual_modules_test
