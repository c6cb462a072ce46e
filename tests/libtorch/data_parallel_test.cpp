#include "tests/libtorch/replicas.hpp"
#include "tests/support/failure_text.hpp"
#include <ddprun/torch/data_parallel.hpp>

#include <c10/util/ThreadLocalDebugInfo.h>
#include <doctest/doctest.h>
#include <torch/torch.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace data_parallel_test {

using ddprun::test::check_close;
using ddprun::test::describe_failure;
using ddprun::test::gradients_of;
using ddprun::test::make_net;
using ddprun::test::make_rows;
using ddprun::test::mean_loss;
using ddprun::test::replicas;
using ddprun::torch::DataParallel;
using ddprun::torch::DataParallelOptions;
using Batch = ddprun::test::RowBatch;
using Net = ddprun::test::NormedNet;

TEST_SUITE("data parallel module") {
  TEST_CASE(
      "data parallel: gradients and loss equal those of the module for any number of "
      "replicas") {
    for (const std::int64_t rows : {12, 7, 2}) {
      const Batch batch = make_rows(rows);
      Net alone = make_net();
      const auto expected = mean_loss(alone->forward(batch.input), batch.target);
      expected.backward();
      for (const int count : {1, 2, 3, 5}) {
        CAPTURE(rows);
        CAPTURE(count);
        DataParallel<Net> parallel(make_net(), replicas(count));
        const auto loss = parallel.train(batch.input, batch.target, mean_loss);
        CHECK(loss.item<double>() == doctest::Approx(expected.item<double>()).epsilon(1e-6));
        check_close(gradients_of(parallel.module()), gradients_of(alone));
        check_close(parallel.forward(batch.input), alone->forward(batch.input).detach());
      }
    }
  }

  TEST_CASE("data parallel: an optimizer of the module's parameters trains all replicas") {
    const Batch batch = make_rows(12);
    const auto train = [&](int count) {
      DataParallel<Net> parallel(make_net(), replicas(count));
      torch::optim::SGD optimizer(parallel.module()->parameters(), 0.1);
      torch::Tensor loss;
      for (int step = 0; step < 20; ++step) {
        optimizer.zero_grad();
        loss = parallel.train(batch.input, batch.target, mean_loss);
        optimizer.step();
      }
      return loss.item<double>();
    };
    const double alone = train(1);
    CHECK(train(2) == doctest::Approx(alone).epsilon(1e-5));
    CHECK(train(4) == doctest::Approx(alone).epsilon(1e-5));
  }

  TEST_CASE("data parallel: gradients are added to existing ones") {
    const Batch batch = make_rows(12);
    DataParallel<Net> parallel(make_net(), replicas(2));
    parallel.train(batch.input, batch.target, mean_loss);
    const auto once = gradients_of(parallel.module()).clone();
    parallel.train(batch.input, batch.target, mean_loss);
    check_close(gradients_of(parallel.module()), 2 * once);
  }

  TEST_CASE("data parallel: gradient memory is reused if the program has released it") {
    const Batch batch = make_rows(12);
    DataParallel<Net> parallel(make_net(), replicas(2));
    at::Tensor& gradient = parallel.module()->first->weight.mutable_grad();
    parallel.train(batch.input, batch.target, mean_loss);
    const void* const place = gradient.data_ptr();
    const at::Tensor values = gradient.clone();
    gradient.reset();
    // Occupies the memory if it is free.
    const at::Tensor other = torch::zeros_like(values);
    parallel.train(batch.input, batch.target, mean_loss);
    CHECK(gradient.data_ptr() == place);
    CHECK(gradient.equal(values));

    const at::Tensor taken = gradient;
    gradient.reset();
    parallel.train(batch.input * 2, batch.target, mean_loss);
    CHECK(taken.equal(values));
    CHECK(!gradient.equal(values));
  }

  TEST_CASE("data parallel: gradients set by the program keep their memory") {
    const Batch batch = make_rows(12);
    DataParallel<Net> parallel(make_net(), replicas(2));
    torch::nn::Linear& layer = parallel.module()->first;
    parallel.train(batch.input, batch.target, mean_loss);
    const at::Tensor once = layer->weight.grad().clone();
    const at::Tensor flat = torch::zeros({layer->weight.numel()});
    layer->weight.mutable_grad() = flat.view_as(layer->weight);
    parallel.train(batch.input, batch.target, mean_loss);
    check_close(flat, once.flatten());
    // Also in a backward pass of the program's own, after which it may free that memory.
    flat.zero_();
    layer(batch.input).sum().backward();
    CHECK(flat.abs().sum().item<double>() > 0);
    layer->weight.mutable_grad().reset();
    const at::Tensor before = flat.clone();
    parallel.train(batch.input, batch.target, mean_loss);
    CHECK(flat.equal(before));
    check_close(layer->weight.grad(), once);
  }

  TEST_CASE("data parallel: a gradient graph of the program is unchanged") {
    const Batch batch = make_rows(12);
    DataParallel<Net> parallel(make_net(), replicas(2));
    parallel.train(batch.input, batch.target, mean_loss);
    at::Tensor& gradient = parallel.module()->second->weight.mutable_grad();
    gradient.reset();
    mean_loss(parallel.module()->forward(batch.input), batch.target)
        .backward({}, /*retain_graph=*/true, /*create_graph=*/true);
    CHECK(gradient.requires_grad());
    for (auto& parameter : parallel.module()->parameters()) parameter.mutable_grad().reset();
  }

  TEST_CASE("data parallel: unusual gradients equal those of the undivided module") {
    struct UnusualImpl : torch::nn::Module {
      UnusualImpl() {
        torch::manual_seed(3);
        words = register_module(
            "words", torch::nn::Embedding(torch::nn::EmbeddingOptions(20, 6).sparse(true)));
        first = register_parameter("first", torch::randn({6}));
        second = register_parameter("second", torch::randn({6}));
        across = register_parameter("across", torch::randn({200, 6}).t());
        tied = register_module("tied", torch::nn::Linear(6, 6));
        register_module("tied_again", tied);
      }
      torch::Tensor forward(const torch::Tensor& input) {
        // Both get views of one gradient.
        const auto sum = first.view({-1}) + second.view({-1});
        return tied(torch::tanh(tied(words(input) + sum))).matmul(across);
      }
      torch::nn::Embedding words{nullptr};
      torch::Tensor first, second, across;
      torch::nn::Linear tied{nullptr};
    };
    TORCH_MODULE(Unusual);
    const auto input = torch::arange(12);
    const auto target = torch::ones({12, 200});
    Unusual alone;
    mean_loss(alone(input), target).backward();
    const auto check = [&](int count, bool is_frozen_first, bool is_moved) {
      CAPTURE(count);
      CAPTURE(is_frozen_first);
      CAPTURE(is_moved);
      Unusual module;
      for (auto& parameter : module->parameters()) parameter.set_requires_grad(!is_frozen_first);
      DataParallel<Unusual> parallel(module, replicas(count), [] { return Unusual(); });
      for (auto& parameter : module->parameters()) parameter.set_requires_grad(true);
      if (is_moved) {
        parallel.train(input, target, mean_loss);
        module->to(torch::kFloat64);
        module->to(torch::kFloat32);
      }
      for (int step = 0; step < 3; ++step) {
        for (auto& parameter : parallel.module()->parameters()) parameter.mutable_grad().reset();
        parallel.train(input, target, mean_loss);
        const auto expected = alone->named_parameters();
        for (const auto& parameter : parallel.module()->named_parameters()) {
          CAPTURE(parameter.key());
          check_close(parameter.value().grad().to_dense().flatten(),
                      expected[parameter.key()].grad().to_dense().flatten());
        }
      }
    };
    for (const int count : {1, 2, 3}) check(count, false, false);
    check(2, true, false);
    check(2, false, true);
  }

  TEST_CASE("data parallel: a replica uses the thread state of the caller") {
    struct Note : c10::DebugInfoBase {};
    struct ListenerImpl : torch::nn::Module {
      ListenerImpl() { weight = register_parameter("weight", torch::ones({1})); }
      torch::Tensor forward(const torch::Tensor& input) {
        if (c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::TEST_INFO)) ++calls_with_state;
        return input * weight;
      }
      torch::Tensor weight;
      std::atomic<int> calls_with_state = 0;
    };
    TORCH_MODULE(Listener);
    std::vector<Listener> made{Listener()};
    DataParallel<Listener> parallel(made[0], replicas(2), [&] {
      made.emplace_back();
      return made.back();
    });
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::TEST_INFO, std::make_shared<Note>());
    parallel.train(torch::ones({4, 1}), torch::ones({4, 1}), mean_loss);
    parallel.forward(torch::ones({4, 1}));
    for (const auto& module : made) CHECK(module->calls_with_state == 2);
  }

  TEST_CASE("data parallel: a parameter has a gradient if any replica used it") {
    struct ChoosingImpl : torch::nn::Module {
      ChoosingImpl() {
        for (const char* name : {"first", "second", "third"})
          choices.push_back(register_module(name, torch::nn::Linear(1, 1)));
      }
      torch::Tensor forward(const torch::Tensor& input) {
        return choices[static_cast<std::size_t>(input[0].item<std::int64_t>())](input);
      }
      std::vector<torch::nn::Linear> choices;
    };
    TORCH_MODULE(Choosing);
    DataParallel<Choosing> parallel(Choosing(), replicas(2), [] { return Choosing(); });
    const auto used_by = [&](const std::vector<float>& rows) {
      const auto input = torch::tensor(rows).view({-1, 1});
      parallel.train(input, torch::zeros_like(input), mean_loss);
      std::string used;
      for (const auto& choice : parallel.module()->choices) {
        used += choice->weight.grad().defined() ? 'x' : '-';
        choice->weight.mutable_grad().reset();
      }
      return used;
    };
    for (int step = 0; step < 2; ++step) {
      CHECK(used_by({0, 0}) == "x--");
      CHECK(used_by({0, 1}) == "xx-");
      CHECK(used_by({2, 1}) == "-xx");
      CHECK(used_by({1}) == "-x-");
    }
  }

  TEST_CASE("data parallel: buffers are those of the first replica like in PyTorch") {
    const Batch batch = make_rows(12);
    Net alone = make_net();
    Net net = make_net();
    alone->has_norm = net->has_norm = true;
    alone->forward(batch.input.narrow(0, 0, 6));
    DataParallel<Net> parallel(net, replicas(2));
    parallel.train(batch.input, batch.target, mean_loss);
    // Not bit for bit: with a different number of threads MKL adds in another order.
    check_close(net->norm->running_mean, alone->norm->running_mean);
    check_close(net->norm->running_var, alone->norm->running_var);
  }

  TEST_CASE("data parallel: a later type conversion applies to all replicas") {
    const Batch batch = make_rows(12);
    Net net = make_net();
    net->has_norm = true;
    DataParallel<Net> parallel(net, replicas(2));
    parallel.train(batch.input, batch.target, mean_loss);
    net->to(torch::kFloat64);
    const auto input = batch.input.to(torch::kFloat64);
    const auto target = batch.target.to(torch::kFloat64);
    for (auto& parameter : net->parameters()) parameter.mutable_grad().reset();
    CHECK(parallel.train(input, target, mean_loss).dtype() == torch::kFloat64);
    CHECK(gradients_of(net).dtype() == torch::kFloat64);
    net->eval();
    check_close(parallel.forward(input), net->forward(input).detach());
  }

  TEST_CASE("data parallel: an evaluating submodule evaluates in all replicas") {
    const Batch batch = make_rows(12);
    Net net = make_net();
    net->has_norm = true;
    net->train();
    net->norm->eval();
    Net alone = make_net();
    alone->has_norm = true;
    alone->norm->eval();
    mean_loss(alone->forward(batch.input), batch.target).backward();
    DataParallel<Net> parallel(net, replicas(3));
    parallel.train(batch.input, batch.target, mean_loss);
    check_close(gradients_of(net), gradients_of(alone));
  }

  TEST_CASE("data parallel: LibTorch's threads are divided among replicas") {
    const int before = torch::get_num_threads();
    torch::set_num_threads(2);
    DataParallelOptions options = replicas(2);
    options.compute_threads = 3;
    DataParallel<Net> parallel(make_net(), options);
    std::atomic<int> seen = 0;
    const Batch batch = make_rows(4);
    parallel.train(batch.input, batch.target,
                   [&](const torch::Tensor& output, const torch::Tensor& target) {
                     seen += torch::get_num_threads();
                     return mean_loss(output, target);
                   });
    CHECK(seen.load() == 2 * 3);
    CHECK(torch::get_num_threads() == 2);
    torch::set_num_threads(before);
  }

  TEST_CASE("data parallel: a function creates modules that cannot be cloned") {
    const Batch batch = make_rows(4);
    torch::nn::Sequential model(torch::nn::Linear(6, 3));
    DataParallel<torch::nn::Sequential> parallel(
        model, replicas(2), [] { return torch::nn::Sequential(torch::nn::Linear(6, 3)); });
    check_close(parallel.forward(batch.input), model->forward(batch.input).detach());
    const auto other = [] { return torch::nn::Sequential(torch::nn::Linear(6, 4)); };
    CHECK(describe_failure([&] {
            DataParallel<torch::nn::Sequential> wrong(model, replicas(2), other);
          }) == "usage: DataParallel: a replica has other parameters than the module");
  }
}

}  // namespace data_parallel_test
