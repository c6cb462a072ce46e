// Checkpoint sections that optimizers accept, and those that they reject.
#include "tests/libtorch/net.hpp"
#include "tests/support/failure_text.hpp"
#include <ddprun/torch/checkpoint.hpp>

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace optimizer_sections_test {

using ddprun::Checkpoint;
using ddprun::test::describe_failure;
using ddprun::torch::get_optimizer;
using ddprun::torch::put_module;
using ddprun::torch::put_optimizer;
using torch::nn::Linear;

namespace {

/// With the same parameters.
Linear copy_of(const Linear& layer) {
  return Linear(std::dynamic_pointer_cast<torch::nn::LinearImpl>(layer->clone()));
}

torch::optim::SGDOptions momentum() {
  return torch::optim::SGDOptions(0.1).momentum(0.9);
}

/// Misreads every section.
struct Misreader : torch::optim::SGD {
  using SGD::SGD;
  void load(torch::serialize::InputArchive&) override { std::stoull("none"); }
};

void take_step(torch::optim::Optimizer& optimizer) {
  for (auto& group : optimizer.param_groups()) {
    for (auto& parameter : group.params()) parameter.mutable_grad() = torch::ones_like(parameter);
  }
  optimizer.step();
}

void take_step(torch::optim::LBFGS& optimizer, Linear& layer) {
  optimizer.step([&] {
    optimizer.zero_grad();
    auto loss = (layer(torch::ones({2, 3})) - 1).pow(2).sum();
    loss.backward();
    return loss;
  });
}

Checkpoint with_optimizer(torch::optim::Optimizer& optimizer) {
  take_step(optimizer);
  Checkpoint checkpoint;
  put_optimizer(checkpoint, "optimizer", optimizer);
  return checkpoint;
}

Checkpoint with_archive(torch::serialize::OutputArchive& archive) {
  std::string bytes;
  archive.save_to([&](const void* data, std::size_t size) {
    bytes.append(static_cast<const char*>(data), size);
    return size;
  });
  Checkpoint checkpoint;
  ddprun::put_section(checkpoint, "optimizer", bytes);
  return checkpoint;
}

/// Like the output of other programs.
Checkpoint as_libtorch(torch::optim::Optimizer& optimizer) {
  take_step(optimizer);
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  return with_archive(archive);
}

/// The section of an SGD with state for its only parameter, torch::ones({2}).
struct SgdSection {
  std::string parameter = "0";              ///< the key of its state
  std::vector<std::string> states = {"0"};  ///< all keys
  std::string further_option;               ///< omitted if empty
  bool is_named = true;                     ///< marks it as an SGD's

  Checkpoint write() const;
};

Checkpoint SgdSection::write() const {
  using torch::serialize::OutputArchive;
  OutputArchive archive;
  OutputArchive all_states;
  OutputArchive groups;
  OutputArchive group;
  OutputArchive options;
  for (const auto& key : states) {
    OutputArchive state;
    state.write("momentum_buffer", c10::IValue(torch::ones({2})));
    all_states.write(key, state);
  }
  momentum().serialize(options);
  if (!further_option.empty()) options.write(further_option, c10::IValue(true));
  group.write("params/size", torch::tensor(std::int64_t{1}));
  group.write("params/0", c10::IValue(parameter));
  group.write("options", options);
  groups.write("param_groups/size", torch::tensor(std::int64_t{1}));
  groups.write("param_groups/0", group);
  archive.write("pytorch_version", c10::IValue("1.5.0"));
  if (is_named) archive.write("kind", c10::IValue("torch::optim::SGD"));
  archive.write("state", all_states);
  archive.write("param_groups", groups);
  return with_archive(archive);
}

/// Returns the error; the optimizer must be unchanged.
std::string refusal(const Checkpoint& checkpoint, torch::optim::Optimizer& optimizer) {
  const auto message = describe_failure([&] { get_optimizer(checkpoint, "optimizer", optimizer); });
  CHECK(optimizer.state().empty());
  return message;
}

}  // namespace

TEST_SUITE("optimizers' sections of checkpoints") {
  TEST_CASE("optimizer sections: state of other parameters is rejected") {
    Linear layer(3, 2);
    torch::optim::Adam saved(layer->parameters());
    const auto checkpoint = with_optimizer(saved);
    Linear large(3, 4);
    torch::optim::Adam of_large(large->parameters());
    CHECK(refusal(checkpoint, of_large) ==
          "usage: checkpoint section \"optimizer\" has Float[2, 3] for \"exp_avg\" of parameter 0 "
          "in group 0, which is Float[4, 3]");
    Linear twice(3, 2);
    twice->to(torch::kFloat64);
    torch::optim::Adam of_twice(twice->parameters());
    CHECK(refusal(checkpoint, of_twice) ==
          "usage: checkpoint section \"optimizer\" has Float[2, 3] for \"exp_avg\" of parameter 0 "
          "in group 0, which is Double[2, 3]");
    torch::optim::Adam of_one({layer->weight});
    CHECK(refusal(checkpoint, of_one) ==
          "usage: checkpoint section \"optimizer\" has 2 parameters in group 0, the optimizer has "
          "1");
    torch::optim::Adam of_groups(
        std::vector<torch::optim::OptimizerParamGroup>{{{layer->weight}}, {{layer->bias}}});
    CHECK(refusal(checkpoint, of_groups) ==
          "usage: checkpoint section \"optimizer\" has 1 groups of parameters, the optimizer has "
          "2");
  }

  TEST_CASE("optimizer sections: a scalar parameter has state of its shape and type") {
    const auto number = [](torch::ScalarType type) { return torch::ones({}, type); };
    torch::optim::Adam saved({number(torch::kFloat)});
    const auto checkpoint = with_optimizer(saved);
    torch::optim::Adam of_matrix({torch::ones({4, 3})});
    CHECK(refusal(checkpoint, of_matrix) ==
          "usage: checkpoint section \"optimizer\" has Float[] for \"exp_avg\" of parameter 0 in "
          "group 0, which is Float[4, 3]");
    torch::optim::Adam of_double({number(torch::kDouble)});
    CHECK(refusal(checkpoint, of_double) ==
          "usage: checkpoint section \"optimizer\" has Float[] for \"exp_avg\" of parameter 0 in "
          "group 0, which is Double[]");
    torch::optim::Adam again({number(torch::kFloat)});
    get_optimizer(checkpoint, "optimizer", again);
    CHECK(again.state().size() == 1);
  }

  TEST_CASE("optimizer sections: state of another kind is rejected") {
    Linear layer(3, 2);
    torch::optim::SGD sgd(layer->parameters(), momentum());
    torch::optim::Adam adam(layer->parameters());
    torch::optim::AdamW adamw(layer->parameters());
    torch::optim::Adam other(layer->parameters());
    CHECK(refusal(with_optimizer(sgd), other) ==
          "usage: checkpoint section \"optimizer\" is of a torch::optim::SGD, and this is a "
          "torch::optim::Adam");
    CHECK(refusal(with_optimizer(adamw), other) ==
          "usage: checkpoint section \"optimizer\" is of a torch::optim::AdamW, and this is a "
          "torch::optim::Adam");
    CHECK(refusal(as_libtorch(sgd), other) ==
          "usage: checkpoint section \"optimizer\" is of an optimizer with the options dampening, "
          "lr, momentum, nesterov, weight_decay, and this is a torch::optim::Adam, which has "
          "amsgrad, betas, eps, lr, weight_decay");
    Checkpoint module;
    put_module(module, "optimizer", *layer);
    CHECK(refusal(module, other) ==
          "usage: checkpoint section \"optimizer\" is not of an optimizer");
  }

  TEST_CASE("optimizer sections: unknown options of another LibTorch are accepted") {
    torch::optim::SGD optimizer({torch::ones({2})}, momentum());
    CHECK(refusal(SgdSection{.further_option = "fused", .is_named = false}.write(), optimizer)
              .find("of an optimizer with the options dampening, fused, lr,") != std::string::npos);
    get_optimizer(SgdSection{.further_option = "fused"}.write(), "optimizer", optimizer);
    CHECK(optimizer.state().size() == 1);
  }

  TEST_CASE("optimizer sections: keys that this LibTorch misreads are rejected") {
    // Old versions accept them unchanged, new ones as numbers.
    using States = std::decay_t<decltype(std::declval<torch::optim::Optimizer&>().state())>;
    constexpr bool has_text_keys = std::is_same_v<States::key_type, std::string>;
    const auto error_of = [](const SgdSection& section) {
      torch::optim::SGD optimizer({torch::ones({2})}, momentum());
      const auto message =
          describe_failure([&] { get_optimizer(section.write(), "optimizer", optimizer); });
      CHECK(optimizer.state().size() == (message == "no failure" ? 1 : 0));
      return message;
    };
    CHECK(error_of({}) == "no failure");
    CHECK(error_of({.parameter = "7", .states = {"6", "7"}}) == "no failure");
    const std::string huge(23, '9');
    for (const auto& [key, section] : std::vector<std::pair<std::string, SgdSection>>{
             {huge, {.parameter = huge, .states = {huge}}},
             {huge, {.states = {"0", huge}}},
             {"00", {.states = {"0", "00"}}},
             {"none", {.states = {"0", "none"}}},
         }) {
      CHECK(error_of(section) == (has_text_keys ? "no failure"
                                                : "usage: checkpoint section \"optimizer\" has \"" +
                                                      key + "\" for a parameter's address"));
    }
    const auto old = error_of({.parameter = "0x55d0", .states = {"0x55d0"}});
    const bool is_refused = old.find("was written by an older LibTorch") != std::string::npos;
    CHECK(is_refused == !has_text_keys);
  }

  TEST_CASE("optimizer sections: exceptions of load() are reported for the section") {
    Misreader optimizer({torch::ones({2})}, momentum());
    CHECK(refusal(SgdSection().write(), optimizer) ==
          "usage: checkpoint section \"optimizer\" is of something else: stoull");
  }

  TEST_CASE("optimizer sections: every kind resumes from its section and from LibTorch's own") {
    using Make = std::function<std::unique_ptr<torch::optim::Optimizer>(const Linear&)>;
    const std::vector<Make> kinds = {
        [](const Linear& layer) {
          return std::make_unique<torch::optim::Adagrad>(layer->parameters());
        },
        [](const Linear& layer) {
          return std::make_unique<torch::optim::Adam>(layer->parameters());
        },
        [](const Linear& layer) {
          return std::make_unique<torch::optim::AdamW>(layer->parameters());
        },
        [](const Linear& layer) {
          return std::make_unique<torch::optim::RMSprop>(layer->parameters());
        },
        [](const Linear& layer) {
          return std::make_unique<torch::optim::SGD>(layer->parameters(), momentum());
        },
    };
    for (const auto& make : kinds) {
      for (const auto& written : {with_optimizer, as_libtorch}) {
        Linear layer(3, 2);
        const auto optimizer = make(layer);
        const auto checkpoint = written(*optimizer);
        Linear again = copy_of(layer);
        const auto loaded = make(again);
        get_optimizer(checkpoint, "optimizer", *loaded);
        take_step(*optimizer);
        take_step(*loaded);
        CHECK(again->weight.equal(layer->weight));
        CHECK(again->bias.equal(layer->bias));
      }
    }
  }

  TEST_CASE("optimizer sections: a used optimizer can be restored to any state") {
    Linear layer(3, 2);
    torch::optim::SGD optimizer(layer->parameters(), momentum());
    Checkpoint checkpoint;
    put_optimizer(checkpoint, "optimizer", optimizer);
    take_step(optimizer);
    CHECK(optimizer.state().size() == 2);
    get_optimizer(checkpoint, "optimizer", optimizer);
    CHECK(optimizer.state().empty());
  }

  TEST_CASE("optimizer sections: state required by options is required") {
    Linear layer(3, 2);
    const auto adam = [&](bool has_maxima) {
      return torch::optim::Adam(layer->parameters(),
                                torch::optim::AdamOptions().amsgrad(has_maxima));
    };
    auto plain = adam(false);
    auto with_maxima = adam(true);
    CHECK(refusal(with_optimizer(plain), with_maxima) ==
          "usage: checkpoint section \"optimizer\" is of a torch::optim::Adam without amsgrad, and "
          "this one is with");
    auto another = adam(false);
    auto written = adam(true);
    CHECK(refusal(with_optimizer(written), another) ==
          "usage: checkpoint section \"optimizer\" is of a torch::optim::Adam with amsgrad, and "
          "this one is without");
    auto again = adam(true);
    get_optimizer(with_optimizer(written), "optimizer", again);
    take_step(again);
  }

  TEST_CASE("optimizer sections: a used LBFGS is written or rejected with a message") {
    Linear layer(3, 2);
    torch::optim::LBFGS optimizer(layer->parameters());
    Checkpoint checkpoint;
    put_optimizer(checkpoint, "optimizer", optimizer);
    const Checkpoint before = checkpoint;
    take_step(optimizer, layer);
    const auto message =
        describe_failure([&] { put_optimizer(checkpoint, "optimizer", optimizer); });
    if (message == "no failure") return;  // a version that supports it
    CHECK(message.starts_with("usage: checkpoint section \"optimizer\" cannot be written: "));
    CHECK(checkpoint == before);
    torch::optim::LBFGS again(layer->parameters());
    get_optimizer(checkpoint, "optimizer", again);
    CHECK(again.state().empty());
  }

  TEST_CASE("optimizer sections: LBFGS resumes only from state of exactly its parameters") {
    Linear layer(3, 2);
    torch::optim::LBFGS optimizer(layer->parameters());
    take_step(optimizer, layer);
    for (auto& item : optimizer.state()) {
      auto& state = static_cast<torch::optim::LBFGSParamState&>(*item.second);
      state.al(std::decay_t<decltype(state.al())>());  // cannot be written
    }
    Checkpoint checkpoint;
    put_optimizer(checkpoint, "optimizer", optimizer);
    Linear large(3, 4);
    torch::optim::LBFGS of_large(large->parameters());
    CHECK(refusal(checkpoint, of_large) ==
          "usage: checkpoint section \"optimizer\" has Float[8] for \"d\" of parameter 0 in group "
          "0, which is Float[16]");
    Linear again = copy_of(layer);
    torch::optim::LBFGS loaded(again->parameters());
    get_optimizer(checkpoint, "optimizer", loaded);
    take_step(optimizer, layer);
    take_step(loaded, again);
    CHECK(again->weight.equal(layer->weight));
  }

  TEST_CASE("optimizer sections: sections written by other processes are equal byte for byte") {
    const auto write = [] {
      torch::manual_seed(3);
      ddprun::test::Net net(1);
      torch::optim::Adam optimizer(net->parameters());
      return with_optimizer(optimizer).sections["optimizer"];
    };
    // Kept alive, so that the second one's parameters have other addresses.
    const ddprun::test::Net between(1);
    const auto first = write();
    const ddprun::test::Net more(1);
    CHECK((write() == first));  // LibTorch does not print bytes
  }
}

}  // namespace optimizer_sections_test
