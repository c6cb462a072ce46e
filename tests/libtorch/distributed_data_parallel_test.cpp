#include "tests/libtorch/net.hpp"
#include "tests/support/rank_threads.hpp"
#include <ddprun/bucket_hooks.hpp>
#include <ddprun/torch.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <tuple>
#include <vector>

namespace distributed_data_parallel_test {

using ddprun::ProcessGroup;
using ddprun::test::backward;
using ddprun::test::Batch;
using ddprun::test::check_equal;
using ddprun::test::gradients_alone;
using ddprun::test::gradients_of;
using ddprun::test::make_batch;
using ddprun::test::make_nets;
using ddprun::test::Net;
using ddprun::test::NetImpl;
using ddprun::test::of;
using ddprun::test::run_ranks;
using ddprun::torch::DistributedDataParallel;

namespace {

/// A module with arbitrary input and output types.
struct Odd : torch::nn::Module {
  Odd() { weight = register_parameter("weight", torch::ones({2})); }

  std::tuple<torch::Tensor, int> forward(const torch::Tensor& input, int times) {
    return {input * weight * times, times};
  }

  torch::Tensor weight;
};

/// Defines its layers in another order than it uses them.
struct LastFirst : torch::nn::Module {
  LastFirst() {
    last = register_parameter("last", torch::ones({}));
    first = register_parameter("first", torch::ones({}));
  }

  torch::Tensor forward(float input) { return input * first * last; }

  torch::Tensor last, first;
};

}  // namespace

TEST_SUITE("distributed data parallel") {
  TEST_CASE("DDP: gradients of any number of workers equal those of the joined batch") {
    const auto batch = make_batch(24);
    const auto expected = gradients_alone(batch);
    for (const int ranks : {1, 2, 3, 4}) {
      CAPTURE(ranks);
      auto nets = make_nets(ranks);
      run_ranks(ranks, [&](ProcessGroup& group) {
        DistributedDataParallel model(of(nets, group), group);
        backward(model, batch.part(group.rank(), ranks));
        check_equal(gradients_of(model.module()), expected);
      });
    }
  }

  TEST_CASE("DDP: all workers start with rank 0's parameters and buffers") {
    std::vector<torch::nn::BatchNorm1d> norms;
    for (int rank = 0; rank < 3; ++rank) {
      norms.emplace_back(torch::nn::BatchNormOptions(4));
      const torch::NoGradGuard no_graph;
      norms.back()->weight.fill_(rank + 1);
      norms.back()->running_mean.fill_(rank + 10);
      norms.back()->num_batches_tracked.fill_(rank + 20);
    }
    run_ranks(3, [&](ProcessGroup& group) {
      DistributedDataParallel model(of(norms, group), group);
      CHECK(model.module().weight.equal(torch::ones({4})));
      CHECK(model.module().running_mean.equal(torch::full({4}, 10.0F)));
      CHECK(model.module().num_batches_tracked.item<std::int64_t>() == 20);
    });
  }

  TEST_CASE("DDP: a module can be an object or holder or shared pointer") {
    run_ranks(2, [&](ProcessGroup& group) {
      const auto input = torch::tensor({1.0F, 2.0F}) * (group.rank() + 1);
      Odd object;
      DistributedDataParallel by_object(object, group);
      auto [output, times] = by_object.forward(input, 2);
      CHECK(times == 2);
      output.sum().backward();
      CHECK(object.weight.grad().equal(torch::tensor({3.0F, 6.0F})));

      const auto pointer = std::make_shared<Odd>();
      DistributedDataParallel by_pointer(pointer, group);
      std::get<0>(by_pointer(input, 1)).sum().backward();
      CHECK(pointer->weight.grad().equal(torch::tensor({1.5F, 3.0F})));

      torch::nn::Sequential layers(torch::nn::Linear(2, 1));
      DistributedDataParallel by_holder(layers, group);
      by_holder.forward(input).sum().backward();
      CHECK(layers[0]->parameters()[0].grad().equal(torch::tensor({{1.5F, 3.0F}})));
    });
  }

  TEST_CASE("DDP: gradients stay in the buckets after any way of zeroing") {
    const auto batch = make_batch(8);
    const auto expected = gradients_alone(batch);
    auto nets = make_nets(2);
    run_ranks(2, [&](ProcessGroup& group) {
      DistributedDataParallel model(of(nets, group), group);
      const auto zeroings = std::vector<std::function<void()>>{
          [] {}, [&] { model.zero_grad(); },
          [&] {
            for (auto& parameter : model.module().parameters()) parameter.grad().zero_();
          },
          [&] {
            for (auto& parameter : model.module().parameters())
              parameter.mutable_grad() = torch::zeros_like(parameter);
          }};
      for (const auto& zero : zeroings) {
        zero();
        backward(model, batch.part(group.rank(), 2));
        check_equal(gradients_of(model.module()), expected);
        std::size_t index = 0;
        for (const auto& parameter : model.module().parameters())
          CHECK(parameter.grad().data_ptr() == model.reducer().gradient(index++).data);
      }
    });
  }

  TEST_CASE("DDP: unsynchronised gradients accumulate and are averaged later") {
    const auto batch = make_batch(16);
    const auto first = gradients_alone(batch.part(0, 2));
    const auto second = gradients_alone(batch.part(1, 2));
    std::vector own = {gradients_alone(batch.part(0, 2).part(0, 2)),
                       gradients_alone(batch.part(0, 2).part(1, 2))};
    auto nets = make_nets(2);
    run_ranks(2, [&](ProcessGroup& group) {
      DistributedDataParallel model(of(nets, group), group);
      for (int step = 0; step < 2; ++step) {
        model.zero_grad();
        {
          const auto guard = model.no_sync();
          backward(model, batch.part(0, 2).part(group.rank(), 2));
        }
        check_equal(gradients_of(model.module()), of(own, group));
        const auto guard = model.no_sync(false);
        backward(model, batch.part(1, 2).part(group.rank(), 2));
        auto expected = first;
        for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = first[i] + second[i];
        check_equal(gradients_of(model.module()), expected);
      }
    });
  }

  TEST_CASE("DDP: several forward and backward passes per step count") {
    const auto batch = make_batch(16);
    const auto first = gradients_alone(batch.part(0, 2));
    const auto second = gradients_alone(batch.part(1, 2));
    auto expected = first;
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = first[i] + second[i];
    auto nets = make_nets(2);
    run_ranks(2, [&](ProcessGroup& group) {
      DistributedDataParallel model(of(nets, group), group);
      const auto loss = [&](int half) {
        const auto mine = batch.part(half, 2).part(group.rank(), 2);
        return torch::mse_loss(model.forward(mine.input), mine.target);
      };
      const auto both = loss(0) + loss(1);
      both.backward({}, /*retain_graph=*/true);
      check_equal(gradients_of(model.module()), expected);

      model.zero_grad();
      const auto a = loss(0);
      const auto b = loss(1);
      a.backward();
      b.backward();
      check_equal(gradients_of(model.module()), expected);

      model.zero_grad();
      both.backward();  // once more, with no forward pass before it
      check_equal(gradients_of(model.module()), expected);
    });
  }

  TEST_CASE("DDP: gradients stay in rebuilt buckets") {
    run_ranks(2, [&](ProcessGroup& group) {
      auto options = ddprun::torch::ddp_defaults();
      options.rebuild_buckets = true;
      options.first_bucket_bytes = 1;
      options.bucket_bytes_cap = 1;
      LastFirst module;
      DistributedDataParallel model(module, group, options);
      for (int step = 0; step < 3; ++step) {
        module.first.mutable_grad().reset();
        model.forward(static_cast<float>(group.rank())).backward();
        CHECK(module.first.grad().item<float>() == 0.5F);
        CHECK(module.last.grad().item<float>() == 0.5F * static_cast<float>(step + 1));
        CHECK(module.last.grad().data_ptr() == model.reducer().gradient(0).data);
      }
      CHECK(model.reducer().layout() == 1);
    });
  }

  TEST_CASE("DDP: a gradient kept by the program outlives bucket and reducer") {
    std::vector<LastFirst> modules(2);
    std::vector<torch::Tensor> kept(2);
    run_ranks(2, [&](ProcessGroup& group) {
      auto options = ddprun::torch::ddp_defaults();
      options.rebuild_buckets = true;
      LastFirst& module = of(modules, group);
      {
        DistributedDataParallel model(module, group, options);
        model.forward(4.0F).backward();
        of(kept, group) = module.first.grad();
        model.zero_grad();
        model.forward(8.0F).backward();
        CHECK(model.reducer().layout() == 1);
        CHECK(module.first.grad().item<float>() == 8);
      }
      // The next allocation would reuse its memory.
      const auto other = group.allocate(std::size_t{1} << 20);
      std::memset(other.get(), 0xff, std::size_t{1} << 20);
      CHECK(of(kept, group).item<float>() == 4);
    });
    for (const auto& gradient : kept) CHECK(gradient.item<float>() == 4);
  }

  TEST_CASE("DDP: gradients are available after synchronise()") {
    auto nets = make_nets(2);
    const auto batch = make_batch(8);
    const auto expected = gradients_alone(batch);
    run_ranks(2, [&](ProcessGroup& group) {
      DistributedDataParallel model(of(nets, group), group);
      backward(model, batch.part(group.rank(), 2));
      model.synchronise();
      check_equal(gradients_of(model.module()), expected);
      const auto logged = model.reducer().logging_data();
      CHECK(logged.ints.at("num_parameter_tensors") == 4);
    });
  }

  TEST_CASE("DDP: post-local SGD averages globally before its start step") {
    const auto batch = make_batch(8);
    const auto expected = gradients_alone(batch);
    auto nets = make_nets(2);
    run_ranks(2, [&](ProcessGroup& group) {
      auto options = ddprun::torch::ddp_defaults();
      options.broadcast_buffers = false;
      options.hook = ddprun::post_local_sgd(group, {.start_step = 10});
      DistributedDataParallel model(of(nets, group), group, options);
      backward(model, batch.part(group.rank(), 2));
      const auto gradients = gradients_of(model.module());
      REQUIRE(gradients.size() == expected.size());
      for (std::size_t i = 0; i < gradients.size(); ++i)
        CHECK(gradients[i].allclose(expected[i], 1e-3, 1e-5));
    });
  }

  TEST_CASE("DDP: a bucket hook replaces the all-reduce") {
    const auto batch = make_batch(8);
    const auto expected = gradients_alone(batch);
    auto nets = make_nets(2);
    run_ranks(2, [&](ProcessGroup& group) {
      auto options = ddprun::torch::ddp_defaults();
      options.hook = ddprun::compress(group, ddprun::DataType::bfloat16);
      DistributedDataParallel model(of(nets, group), group, options);
      backward(model, batch.part(group.rank(), 2));
      const auto gradients = gradients_of(model.module());
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        CHECK(gradients[i].equal(gradients[i].to(torch::kBFloat16).to(torch::kFloat32)));
        // Three roundings to eight bits.
        const auto limit = 0.02 * expected[i].abs().max().item<double>();
        CHECK((gradients[i] - expected[i]).abs().max().item<double>() <= limit);
      }
    });
  }
}

}  // namespace distributed_data_parallel_test
