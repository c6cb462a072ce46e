// The second program of docs/libtorch.md.
#include "tests/support/document.hpp"
#include "tests/support/rank_threads.hpp"
#include "tests/support/temporary_folder.hpp"
#include <ddprun/checkpoint.hpp>
#include <ddprun/torch.hpp>

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace checkpoint_example_test {

namespace {

/// Prints messages of the directory, such as the name of the loaded checkpoint.
void print_message(ddprun::LogLevel, std::string_view line) {
  std::cerr << line << '\n';
}

/// Trains up to step `steps`, from the newest checkpoint if there is one. `folder` is on a file
/// system that all workers share.
void train(torch::nn::Sequential net, ddprun::ProcessGroup group,
           const std::filesystem::path& folder, std::int64_t steps,
           const std::function<torch::Tensor(std::int64_t step)>& input_of) {
  ddprun::CheckpointDirectory checkpoints(folder, {.log = print_message});
  if (group.rank() == 0) checkpoints.claim();  // before loading: no other run may save
  group.barrier().wait();
  ddprun::torch::DistributedDataParallel model(net, group);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  std::int64_t step = 0;
  if (const auto newest = checkpoints.load_newest()) {
    ddprun::torch::get_module(*newest, "net", *net);
    ddprun::torch::get_optimizer(*newest, "optimizer", optimizer);
    step = newest->step;
  }
  std::int64_t latest = step;  // no rank saves while another one loads
  group.all_reduce(ddprun::as_buffer(&latest, 1), ddprun::ReduceOp::max).wait();
  if (step != latest) throw std::runtime_error("not all workers see the same checkpoints");
  while (step < steps) {
    const torch::Tensor input = input_of(step);
    model.zero_grad();
    torch::mse_loss(model.forward(input), input.sum(1, /*keepdim=*/true)).backward();
    optimizer.step();
    ++step;
    if (group.rank() != 0 || (step % 10 != 0 && step != steps)) continue;
    model.synchronise();  // waits for the last gradients
    ddprun::Checkpoint checkpoint{.step = step, .sections = {}};
    ddprun::torch::put_module(checkpoint, "net", *net);
    ddprun::torch::put_optimizer(checkpoint, "optimizer", optimizer);
    checkpoints.save(checkpoint);
  }
}

}  // namespace

namespace {

constexpr int kRanks = 2;
constexpr std::int64_t kSteps = 30;

/// Everything that uses LibTorch's global generator, before ranks run.
struct Run {
  Run() {
    for (int rank = 0; rank < kRanks; ++rank) {
      torch::manual_seed(1);
      nets.emplace_back(torch::nn::Linear(8, 4), torch::nn::ReLU(), torch::nn::Linear(4, 1));
      inputs.push_back(torch::randn({kSteps, 6, 8}) * (1 - 0.5 * rank));
    }
  }

  /// Throws the exception of the first rank that fails.
  void train_in(const std::vector<std::filesystem::path>& folders) {
    ddprun::test::run_ranks(kRanks, [&](ddprun::ProcessGroup& group) {
      const auto rank = static_cast<std::size_t>(group.rank());
      train(nets[rank], std::move(group), folders[rank], kSteps, [&](std::int64_t step) {
        if (taken[rank] == fatal[rank]) throw std::runtime_error("killed");
        ++taken[rank];
        return inputs[rank][step];
      });
    });
  }

  std::vector<torch::nn::Sequential> nets;
  std::vector<torch::Tensor> inputs;  ///< of each rank, the steps first
  std::array<int, kRanks> taken = {};
  std::array<std::optional<int>, kRanks> fatal = {};
};

}  // namespace

TEST_SUITE("LibTorch's checkpoint example") {
  TEST_CASE("checkpoint example: failures do not change a bit of the parameters") {
    const ddprun::test::TemporaryFolder folder;
    Run undisturbed;
    undisturbed.train_in({folder / "undisturbed", folder / "undisturbed"});

    for (const std::size_t victim : {0, 1}) {
      CAPTURE(victim);
      const auto path = folder / ("victim_" + std::to_string(victim));
      Run first;
      first.fatal[victim] = 17;
      CHECK_THROWS(first.train_in({path, path}));
      Run second;
      second.train_in({path, path});
      CHECK(second.taken == std::array<int, kRanks>{20, 20});
      for (const auto& net : second.nets) {
        const auto parameters = net->parameters();
        for (std::size_t i = 0; i < parameters.size(); ++i)
          CHECK(parameters[i].equal(undisturbed.nets[0]->parameters()[i]));
      }
    }
  }

  TEST_CASE("checkpoint example: workers with different checkpoints fail instead of diverging") {
    const ddprun::test::TemporaryFolder folder;
    Run saved;
    saved.train_in({folder / "run", folder / "run"});
    Run parted;
    CHECK_THROWS_WITH(parted.train_in({folder / "empty", folder / "run"}),
                      "not all workers see the same checkpoints");
    CHECK(parted.taken[0] == 0);
  }

  TEST_CASE("checkpoint example: the documentation shows the compiled example") {
    const auto here = ddprun::test::code_compiled_in("tests/libtorch/checkpoint_example_test.cpp");
    const auto shown = ddprun::test::code_shown_in("docs/libtorch.md");
    CHECK_FALSE(here.empty());
    CHECK(shown.ends_with("\n" + here));
  }
}

}  // namespace checkpoint_example_test
