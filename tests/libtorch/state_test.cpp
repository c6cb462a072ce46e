// Samplers and checkpoints.
#include "tests/libtorch/net.hpp"
#include "tests/support/rank_threads.hpp"
#include "tests/support/temporary_folder.hpp"
#include <ddprun/error.hpp>
#include <ddprun/torch.hpp>
#include <ddprun/torch/checkpoint.hpp>
#include <ddprun/torch/distributed_sampler.hpp>

#include <doctest/doctest.h>

#include <sstream>

namespace state_test {

using ddprun::Checkpoint;
using ddprun::test::Net;
using ddprun::torch::DistributedSampler;
using ddprun::torch::get_module;
using ddprun::torch::get_optimizer;
using ddprun::torch::put_module;
using ddprun::torch::put_optimizer;

namespace {

/// Its sample i is the number i.
struct Numbers : torch::data::datasets::Dataset<Numbers> {
  torch::data::Example<> get(std::size_t index) override {
    return {torch::tensor(static_cast<std::int64_t>(index)), torch::zeros({})};
  }
  torch::optional<std::size_t> size() const override { return 10; }
};

void train(Net& net, torch::optim::Optimizer& optimizer, int steps) {
  const auto batch = ddprun::test::make_batch(8);
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    ddprun::test::backward(*net, batch);
    optimizer.step();
  }
}

}  // namespace

TEST_SUITE("state of LibTorch's programs") {
  TEST_CASE("state: a data loader gives each rank the samples of Python's sampler") {
    const DistributedSampler sampler(10, 2, 1);
    auto handle = sampler;
    const auto loader =
        torch::data::make_data_loader(Numbers().map(torch::data::transforms::Stack<>()), sampler,
                                      torch::data::DataLoaderOptions().batch_size(2));
    for (const std::int64_t epoch : {0, 1}) {
      handle.set_epoch(static_cast<std::size_t>(epoch));
      std::vector<std::int64_t> seen;
      for (const auto& batch : *loader) {
        for (std::int64_t i = 0; i < batch.data.size(0); ++i)
          seen.push_back(batch.data[i].item<std::int64_t>());
      }
      CHECK(seen == ddprun::DistributedSampler(10, 2, 1).indices(epoch));
    }
  }

  TEST_CASE("state: a sampler resumes where it was saved") {
    DistributedSampler sampler(10, 2, 0);
    sampler.set_epoch(3);
    sampler.reset({});
    sampler.next(2);
    std::stringstream file;
    torch::serialize::OutputArchive output;
    sampler.save(output);
    output.save_to(file);
    const auto expected = sampler.next(10);

    DistributedSampler other(10, 2, 0);
    torch::serialize::InputArchive input;
    input.load_from(file);
    other.load(input);
    CHECK(other.epoch() == 3);
    CHECK(*other.next(10) == *expected);
    CHECK_FALSE(other.next(10));
    other.reset(std::size_t{4});
    CHECK(other.size() == 2);
  }

  TEST_CASE("state: training resumes from a checkpoint without a difference") {
    const auto adam = torch::optim::AdamOptions(0.01);
    Net whole(1);
    torch::optim::Adam whole_optimizer(whole->parameters(), adam);
    train(whole, whole_optimizer, 3);
    const ddprun::test::TemporaryFolder folder;
    {
      ddprun::CheckpointDirectory directory(folder.path());
      Checkpoint checkpoint{.step = 3};
      put_module(checkpoint, "model", *whole);
      put_optimizer(checkpoint, "optimizer", whole_optimizer);
      directory.save(checkpoint);
    }
    train(whole, whole_optimizer, 2);

    Net resumed(2);
    torch::optim::Adam optimizer(resumed->parameters(), adam);
    const void* const place = resumed->first->weight.data_ptr();
    const auto checkpoint = ddprun::CheckpointDirectory(folder.path()).load_newest();
    REQUIRE(checkpoint);
    get_module(*checkpoint, "model", *resumed);
    get_optimizer(*checkpoint, "optimizer", optimizer);
    CHECK(resumed->first->weight.data_ptr() == place);
    CHECK(resumed->first->weight.requires_grad());
    train(resumed, optimizer, 2);
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(resumed->parameters()[i].equal(whole->parameters()[i]));
  }

  TEST_CASE("state: buffers and parameters of a wrapped module are loaded in place") {
    std::vector<torch::nn::BatchNorm1d> norms;
    for (int rank = 0; rank < 3; ++rank) norms.emplace_back(4);
    Checkpoint checkpoint;
    {
      const torch::NoGradGuard no_graph;
      norms[2]->weight.fill_(3);
      norms[2]->running_mean.fill_(5);
      norms[2]->num_batches_tracked.fill_(7);
    }
    put_module(checkpoint, "norm", *norms[2]);
    ddprun::test::run_ranks(2, [&](ddprun::ProcessGroup& group) {
      torch::nn::BatchNorm1d& norm = ddprun::test::of(norms, group);
      ddprun::torch::DistributedDataParallel model(norm, group);
      const void* const place = norm->running_mean.data_ptr();
      get_module(checkpoint, "norm", *norm);
      CHECK(norm->weight.equal(torch::full({4}, 3.0F)));
      CHECK(norm->running_mean.equal(torch::full({4}, 5.0F)));
      CHECK(norm->num_batches_tracked.item<std::int64_t>() == 7);
      CHECK(norm->running_mean.data_ptr() == place);
      model.forward(torch::arange(8, torch::kFloat).reshape({2, 4})).sum().backward();
      // Each rank alone has twice its number.
      norm->bias.mutable_grad().zero_();
      (model.forward(torch::arange(8, torch::kFloat).reshape({2, 4})) *
       static_cast<double>(group.rank() + 1))
          .sum()
          .backward();
      CHECK(norm->bias.grad().equal(torch::full({4}, 3.0F)));
    });
  }
}

}  // namespace state_test
