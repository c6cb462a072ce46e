// Error messages for invalid use.
#include "tests/libtorch/net.hpp"
#include "tests/support/rank_threads.hpp"
#include <ddprun/torch.hpp>

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

namespace refusals_test {

using ddprun::Error;
using ddprun::ProcessGroup;
using ddprun::test::backward;
using ddprun::test::make_batch;
using ddprun::test::make_nets;
using ddprun::test::Net;
using ddprun::test::of;
using ddprun::test::run_ranks;
using ddprun::torch::DistributedDataParallel;

namespace {

template <typename Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// Throws in its backward pass.
struct Thrower : torch::autograd::Function<Thrower> {
  static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& input) {
    return input.clone();
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext*,
                                               torch::autograd::tensor_list) {
    throw std::runtime_error("no memory for the backward pass");
  }
};

}  // namespace

TEST_SUITE("refusals") {
  TEST_CASE("DDP: the first tensor that differs between ranks is reported") {
    const auto check = [](const std::function<torch::nn::Sequential(int rank)>& make,
                          const std::string& expected) {
      run_ranks(3, [&](ProcessGroup& group) {
        auto layers = make(group.rank());
        CHECK(message_of([&] { DistributedDataParallel model(layers, group); }) ==
              "DistributedDataParallel: the ranks differ: " + expected);
      });
    };
    using torch::nn::BatchNorm1d;
    using torch::nn::Linear;
    using torch::nn::Sequential;
    check(
        [](int rank) {
          return Sequential(Linear(4, 3), Linear(3, rank == 1 ? 5 : 6), BatchNorm1d(rank + 1));
        },
        "parameter \"1.weight\" is Float[5, 3] on rank 1, Float[6, 3] on rank 0");
    check(
        [](int rank) {
          Sequential layers(Linear(4, 3), Linear(3, 3));
          if (rank > 0) layers[0]->as<Linear>()->bias.set_requires_grad(false);
          return layers;
        },
        "parameter \"0.bias\" is frozen on ranks 1 and 2, trained on rank 0");
    check(
        [](int rank) {
          const auto options = torch::nn::BatchNorm1dOptions(2).track_running_stats(rank != 2);
          return Sequential(Linear(2, 2), BatchNorm1d(options));
        },
        "rank 2 lacks buffer \"1.running_mean\" of rank 0");
    check(
        [](int rank) {
          Sequential layers(Linear(2, 2));
          if (rank == 1) layers->push_back(Linear(2, 2));
          return layers;
        },
        "rank 1 has parameter \"1.weight\", which rank 0 lacks");
  }

  TEST_CASE("DDP: different memory formats on ranks are reported") {
    run_ranks(2, [](ProcessGroup& group) {
      torch::nn::Conv2d layer(torch::nn::Conv2dOptions(3, 3, 3).bias(false));
      if (group.rank() == 1)
        layer->weight.set_data(layer->weight.to(torch::MemoryFormat::ChannelsLast));
      CHECK(message_of([&] { DistributedDataParallel model(layer, group); }) ==
            "DistributedDataParallel: the ranks differ: the order in memory of parameter "
            "\"weight\"'s dimensions is [0, 2, 3, 1] on rank 1, [0, 1, 2, 3] on rank 0");
    });
  }

  TEST_CASE("DDP: different options on ranks are reported with the object's name") {
    auto nets = make_nets(2);
    run_ranks(2, [&](ProcessGroup& group) {
      auto options = ddprun::torch::ddp_defaults();
      options.find_unused_parameters = group.rank() == 1;
      CHECK(message_of([&] { DistributedDataParallel model(of(nets, group), group, options); }) ==
            "DistributedDataParallel: the ranks differ: option find_unused_parameters is true on "
            "rank 1, false on rank 0");
    });
  }

  TEST_CASE("DDP: a null module is rejected") {
    run_ranks(1, [](ProcessGroup& group) {
      const std::string expected = "DistributedDataParallel: the module holder or pointer is empty";
      CHECK(message_of([&] { DistributedDataParallel model(Net(nullptr), group); }) == expected);
      const std::shared_ptr<ddprun::test::NetImpl> nothing;
      CHECK(message_of([&] { DistributedDataParallel model(nothing, group); }) == expected);
    });
  }

  TEST_CASE("DDP: a module with nothing to average is rejected") {
    run_ranks(1, [](ProcessGroup& group) {
      torch::nn::ReLU nothing;
      CHECK(message_of([&] { DistributedDataParallel model(nothing, group); }) ==
            "DistributedDataParallel: no parameter of the module requires a gradient, so there is "
            "nothing to average");
    });
  }

  TEST_CASE("DDP: a parameter without gradient is named with the option that allows it") {
    auto nets = make_nets(2);
    run_ranks(2, [&](ProcessGroup& group) {
      DistributedDataParallel model(of(nets, group), group);
      const auto text = message_of([&] {
        model.forward(torch::ones({1, 8}));
        // As if the model had not used its second layer.
        of(nets, group)->first->forward(torch::ones({1, 8})).sum().backward();
      });
      CHECK(text ==
            "DistributedDataParallel: the backward pass gave no gradient to \"second.weight\", "
            "\"second.bias\": what a forward pass does not use needs find_unused_parameters");
    });
  }

  TEST_CASE("DDP: sparse gradients are rejected with the parameter") {
    run_ranks(1, [](ProcessGroup& group) {
      torch::nn::Embedding words(torch::nn::EmbeddingOptions(10, 3).sparse(true));
      DistributedDataParallel model(words, group);
      const auto text = message_of([&] { model.forward(torch::tensor({1, 2})).sum().backward(); });
      CHECK(text ==
            "DistributedDataParallel: parameter \"weight\" has a sparse gradient, only dense ones "
            "can be averaged: make its embedding with sparse(false)");
    });
  }

  TEST_CASE("DDP: sparse parameters are rejected for any number of ranks") {
    run_ranks(2, [](ProcessGroup& group) {
      const auto table = torch::ones({2, 2});
      for (const auto& sparse : {table.to_sparse(), table.to_sparse_csr()}) {
        torch::nn::Linear layer(2, 2);
        layer->register_parameter("table", sparse);
        CHECK(message_of([&] { DistributedDataParallel model(layer, group); }) ==
              "parameter \"table\" is sparse: collectives need dense memory");
      }
    });
  }

  TEST_CASE("DDP: create_graph is rejected in backward() and supported by grad()") {
    auto nets = make_nets(1);
    run_ranks(1, [&](ProcessGroup& group) {
      Net& net = of(nets, group);
      DistributedDataParallel model(net, group);
      const auto input = torch::ones({2, 8});
      const auto text =
          message_of([&] { model.forward(input).sum().backward({}, /*retain_graph=*/true, true); });
      CHECK_MESSAGE(text.find("backward() with create_graph") != std::string::npos, text);

      model.zero_grad();
      const auto loss = model.forward(input).pow(2).sum();
      const auto gradients = torch::autograd::grad({loss}, {net->second->weight}, {}, true, true);
      (loss + gradients[0].pow(2).sum()).backward();
      CHECK(net->first->weight.grad().abs().sum().item<float>() > 0);
    });
  }

  TEST_CASE("DDP: an exception in a backward pass ends all ranks and is thrown") {
    auto nets = make_nets(2);
    const auto batch = make_batch(4);
    run_ranks(2, [&](ProcessGroup& group) {
      auto model = std::make_unique<DistributedDataParallel<Net>>(of(nets, group), group);
      if (group.rank() == 0) {
        CHECK_THROWS_AS(backward(*model, batch.part(0, 2)), ddprun::PeerFailed);
        return;
      }
      const auto text = message_of([&] {
        // The second layer's gradients are being reduced when the first layer's backward pass
        // fails.
        const auto hidden = torch::tanh(of(nets, group)->first(batch.part(1, 2).input));
        model->forward(batch.part(1, 2).input);
        of(nets, group)->second(Thrower::apply(hidden)).sum().backward();
      });
      CHECK(text.find("no memory for the backward pass") != std::string::npos);
      const auto again = message_of([&] { model->forward(batch.input); });
      CHECK_MESSAGE(again.find("the last backward pass has not ended") != std::string::npos, again);
      model.reset();
    });
  }

  TEST_CASE("DDP: parameters moved after wrapping are named") {
    auto nets = make_nets(1);
    run_ranks(1, [&](ProcessGroup& group) {
      DistributedDataParallel model(of(nets, group), group);
      of(nets, group)->to(torch::kFloat64);
      CHECK(message_of([&] {
              model.forward(torch::ones({1, 8}, torch::kFloat64));
            }) ==
            "DistributedDataParallel: parameter \"first.weight\" has been moved: to(), load() and "
            "the like must come before");
    });
  }

  TEST_CASE("DDP: parameters moved twice after wrapping are named") {
    auto nets = make_nets(1);
    run_ranks(1, [&](ProcessGroup& group) {
      DistributedDataParallel model(of(nets, group), group);
      torch::Tensor& weight = of(nets, group)->second->weight;
      const torch::Tensor values = weight.detach();
      weight.set_data(values.to(torch::kFloat64));
      weight.set_data(values);
      CHECK(message_of([&] {
              model.forward(torch::ones({1, 8}));
            }) ==
            "DistributedDataParallel: parameter \"second.weight\" has been moved: to(), load() and "
            "the like must come before");
    });
  }

  TEST_CASE("DDP: parameters that require a gradient only after wrapping are named") {
    auto nets = make_nets(1);
    run_ranks(1, [&](ProcessGroup& group) {
      of(nets, group)->first->weight.requires_grad_(false);
      DistributedDataParallel model(of(nets, group), group);
      CHECK(message_of([&] { model.forward(torch::ones({1, 8})); }) == "nothing was thrown");
      of(nets, group)->first->weight.requires_grad_(true);
      CHECK(message_of([&] {
              model.forward(torch::ones({1, 8}));
            }) ==
            "DistributedDataParallel: parameter \"first.weight\" required no gradient when it was "
            "wrapped: wrap the module again after the change");
    });
  }

  TEST_CASE("DDP: parameters frozen after wrapping are named") {
    auto nets = make_nets(1);
    run_ranks(1, [&](ProcessGroup& group) {
      DistributedDataParallel model(of(nets, group), group);
      of(nets, group)->second->bias.requires_grad_(false);
      CHECK(message_of([&] {
              model.forward(torch::ones({1, 8}));
            }) ==
            "DistributedDataParallel: parameter \"second.bias\" required a gradient when it was "
            "wrapped: wrap the module again after freezing it");
    });
  }

  TEST_CASE("DDP: a layer replaced after wrapping does not count as unused") {
    run_ranks(1, [&](ProcessGroup& group) {
      torch::nn::Sequential net(torch::nn::Linear(2, 2));
      DistributedDataParallel model(net, group);
      model.forward(torch::ones({1, 2})).sum().backward();
      net->replace_module("0", torch::nn::Linear(2, 2).ptr());
      const auto message = message_of([&] {
        for (int pass = 0; pass < 16; ++pass) model.forward(torch::ones({1, 2})).sum().backward();
      });
      CHECK_MESSAGE(message.find("has got or lost parameters") != std::string::npos, message);
    });
  }

  TEST_CASE("DDP: a module whose tensors changed after wrapping is rejected") {
    run_ranks(1, [&](ProcessGroup& group) {
      torch::nn::Sequential net(torch::nn::Linear(2, 2));
      DistributedDataParallel model(net, group);
      const std::string refusal =
          "DistributedDataParallel: the module has got or lost parameters or buffers since it was "
          "wrapped: register_parameter(), replace_module() and the like must come before";
      CHECK(message_of([&] { model.forward(torch::ones({1, 2})); }) == "nothing was thrown");
      SUBCASE("") {
        net->push_back(torch::nn::Linear(2, 2));
      }
      SUBCASE("") {
        net->replace_module("0", torch::nn::Linear(2, 2).ptr());
      }
      SUBCASE("") {
        net->register_buffer("scale", torch::ones({1}));
      }
      CHECK(message_of([&] {
              for (int pass = 0; pass < 16; ++pass) model.forward(torch::ones({1, 2}));
            }) == refusal);
    });
  }

  TEST_CASE("DDP: buffers moved after wrapping are named") {
    run_ranks(1, [](ProcessGroup& group) {
      torch::nn::BatchNorm1d norm(torch::nn::BatchNormOptions(1));
      DistributedDataParallel model(norm, group);
      const auto input = torch::ones({4, 1});
      CHECK(message_of([&] { model.forward(input); }) == "nothing was thrown");
      norm->running_var.set_data(torch::ones({1}));
      CHECK(message_of([&] { model.forward(input); }) ==
            "DistributedDataParallel: buffer \"running_var\" has been moved: to(), load() and the "
            "like must come before");
    });
  }

  TEST_CASE("DDP: one backward pass cannot mix forward passes inside and outside no_sync") {
    auto nets = make_nets(1);
    run_ranks(1, [&](ProcessGroup& group) {
      DistributedDataParallel model(of(nets, group), group);
      model.forward(torch::ones({1, 8}));
      const auto guard = model.no_sync();
      const auto text = message_of([&] { model.forward(torch::ones({1, 8})); });
      CHECK_MESSAGE(text.find("within and without no_sync()") != std::string::npos, text);
    });
  }

  TEST_CASE("DDP: types that cannot be averaged and accumulate_in_float32 are rejected") {
    run_ranks(1, [](ProcessGroup& group) {
      torch::nn::Linear layer(2, 2);
      auto options = ddprun::torch::ddp_defaults();
      options.accumulate_in_float32 = true;
      CHECK_THROWS_AS(DistributedDataParallel(layer, group, options), Error);
      layer->weight.set_data(layer->weight.to(torch::kComplexFloat));
      CHECK(message_of([&] { DistributedDataParallel model(layer, group); }) ==
            "parameter \"weight\" is of type ComplexFloat, which collectives cannot combine");
    });
  }
}

}  // namespace refusals_test
