// A training step of LibTorch with ddprun's DDP: 10-10000-10000-5, 400 MB of gradients. Rank 0
// prints a JSON line per round: {"local_ms": ..., "ddp_ms": ...}. torch_toy_step.py is the
// counterpart.
#include "tests/bench/statistics.hpp"
#include <ddprun/torch.hpp>
#include <ddprun/worker.hpp>

#include <CLI/CLI.hpp>
#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

namespace {

struct Options {
  std::int64_t width = 10'000;
  std::int64_t batch = 20;
  int steps = 5;
  int rounds = 3;
};

using Model = ddprun::torch::DistributedDataParallel<torch::nn::Sequential>;

struct Bench {
  Bench(const Options& options, const ddprun::ProcessGroup& group)
      : network(torch::nn::Linear(10, options.width), torch::nn::ReLU(),
                torch::nn::Linear(options.width, options.width), torch::nn::ReLU(),
                torch::nn::Linear(options.width, 5)),
        model(network, group),
        optimizer(network->parameters(), torch::optim::SGDOptions(1e-3)),
        input(torch::randn({options.batch, 10})),
        target(torch::randn({options.batch, 5})) {}

  double step(bool synchronise) {
    const auto start = std::chrono::steady_clock::now();
    model.zero_grad();
    {
      const auto guard = model.no_sync(!synchronise);
      torch::mse_loss(model.forward(input), target).backward();
    }
    optimizer.step();
    const auto taken = std::chrono::steady_clock::now() - start;
    return std::chrono::duration<double, std::milli>(taken).count();
  }

  double median(bool synchronise, int steps) {
    std::vector<double> taken;
    for (int i = 0; i < steps; ++i) taken.push_back(step(synchronise));
    return ddprun::bench::median(std::move(taken));
  }

  torch::nn::Sequential network;
  Model model;
  torch::optim::SGD optimizer;
  torch::Tensor input, target;
};

int run(const ddprun::WorkerEnv& env, const Options& options) {
  torch::set_num_threads(1);
  auto group = ddprun::ProcessGroup::create(env);
  Bench bench(options, group);
  bench.step(true);
  for (int round = 0; round < options.rounds; ++round) {
    group.barrier().wait();
    const double local = bench.median(false, options.steps);
    group.barrier().wait();
    const double together = bench.median(true, options.steps);
    if (group.rank() != 0) continue;
    std::printf("{\"local_ms\": %.2f, \"ddp_ms\": %.2f}\n", local, together);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("A step of LibTorch with DDP.");
  app.add_option("--width", options.width, "of the hidden layers");
  app.add_option("--batch", options.batch, "samples of each worker");
  app.add_option("--steps", options.steps, "of each kind in a round");
  app.add_option("--rounds", options.rounds);
  CLI11_PARSE(app, argc, argv);
  return ddprun::run_worker([&](const ddprun::WorkerEnv& env) { return run(env, options); });
}
