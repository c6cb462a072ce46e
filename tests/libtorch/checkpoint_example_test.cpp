// The second program of docs/libtorch.md.
#include "tests/support/document.hpp"
#include "tests/support/temporary_folder.hpp"
#include <ddprun/checkpoint.hpp>
#include <ddprun/torch.hpp>

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>

namespace {

/// Trains up to step `steps`, from wherever an earlier life of these workers has come to. `folder`
/// is on a file system that all of them see.
void train(torch::nn::Sequential net, ddprun::ProcessGroup group,
           const std::filesystem::path& folder, std::int64_t steps,
           const std::function<torch::Tensor(std::int64_t step)>& input_of) {
  ddprun::CheckpointDirectory checkpoints(folder);
  if (group.rank() == 0) checkpoints.claim();  // first: nobody else saves there from now on
  group.barrier().wait();
  ddprun::torch::DistributedDataParallel model(net, group);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  std::int64_t step = 0;
  if (const auto newest = checkpoints.load_newest()) {
    ddprun::torch::get_module(*newest, "net", *net);
    ddprun::torch::get_optimizer(*newest, "optimizer", optimizer);
    step = newest->step;
  }
  group.barrier().wait();  // nobody saves while another one loads
  while (step < steps) {
    const torch::Tensor input = input_of(step);
    model.zero_grad();
    torch::mse_loss(model.forward(input), input.sum(1, /*keepdim=*/true)).backward();
    optimizer.step();
    ++step;
    if (group.rank() != 0 || (step % 10 != 0 && step != steps)) continue;
    ddprun::Checkpoint checkpoint{.step = step, .sections = {}};
    ddprun::torch::put_module(checkpoint, "net", *net);
    ddprun::torch::put_optimizer(checkpoint, "optimizer", optimizer);
    checkpoints.save(checkpoint);
  }
}

}  // namespace

TEST_SUITE("LibTorch's checkpoint example") {
  TEST_CASE("after failures the parameters are those of an undisturbed run, bit for bit") {
    const auto make_net = [] {
      torch::manual_seed(1);
      return torch::nn::Sequential(torch::nn::Linear(8, 4), torch::nn::ReLU(),
                                   torch::nn::Linear(4, 1));
    };
    const auto group = ddprun::ProcessGroup::create_in_process(1).front();
    int taken = 0;
    std::optional<int> fatal;
    const auto input_of = [&](std::int64_t step) {
      if (taken == fatal) throw std::runtime_error("killed");
      ++taken;
      torch::manual_seed(100 + static_cast<std::uint64_t>(step));
      return torch::randn({6, 8});
    };
    const ddprun::test::TemporaryFolder folder;
    const auto undisturbed = make_net();
    train(undisturbed, group, folder / "undisturbed", 30, input_of);

    taken = 0;
    fatal = 17;
    CHECK_THROWS_WITH(train(make_net(), group, folder / "run", 30, input_of), "killed");
    fatal = std::nullopt;
    const auto second = make_net();
    train(second, group, folder / "run", 30, input_of);
    CHECK(taken == 17 + 20);
    for (std::size_t i = 0; i < second->parameters().size(); ++i)
      CHECK(second->parameters()[i].equal(undisturbed->parameters()[i]));
  }

  TEST_CASE("the documentation shows the example that is compiled here") {
    const auto here = ddprun::test::code_compiled_in("tests/libtorch/checkpoint_example_test.cpp");
    const auto shown = ddprun::test::code_shown_in("docs/libtorch.md");
    CHECK_FALSE(here.empty());
    CHECK(shown.ends_with("\n" + here));
  }
}
