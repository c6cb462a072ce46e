// A step of data parallelism by threads of one process (DataParallel) beside one by processes
// (spawn() and DistributedDataParallel), on the CPU with one computing thread for each replica. The
// forms take turns; prints their medians over the rounds.
#include "tests/bench/statistics.hpp"
#include <ddprun/spawn.hpp>
#include <ddprun/torch.hpp>
#include <ddprun/torch/data_parallel.hpp>

#include <CLI/CLI.hpp>
#include <torch/torch.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <sys/mman.h>
#include <vector>

namespace {

using ddprun::WorkerEnv;
using torch::nn::Sequential;

struct Options {
  int replicas = 2;
  std::int64_t width = 2000;
  std::int64_t rows = 64;  // of all replicas
  int steps = 30;
  int rounds = 7;
};

struct Problem {
  explicit Problem(const Options& options)
      : network(make(options)),
        optimizer(network->parameters(), torch::optim::SGDOptions(1e-3)),
        input(torch::randn({options.rows, 10})),
        target(torch::randn({options.rows, 5})) {}

  static Sequential make(const Options& options) {
    torch::manual_seed(1);
    return Sequential(torch::nn::Linear(10, options.width), torch::nn::ReLU(),
                      torch::nn::Linear(options.width, options.width), torch::nn::ReLU(),
                      torch::nn::Linear(options.width, 5));
  }

  Sequential network;
  torch::optim::SGD optimizer;
  torch::Tensor input, target;
};

double median_milliseconds(int steps, const std::function<void()>& step) {
  std::vector<double> taken;
  for (int i = 0; i < steps + 3; ++i) {
    const auto start = std::chrono::steady_clock::now();
    step();
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    if (i >= 3) taken.push_back(time.count());
  }
  return ddprun::bench::median(taken);
}

torch::Tensor mean_squares(const torch::Tensor& output, const torch::Tensor& target) {
  return torch::mse_loss(output, target);
}

double by_threads(const Options& options) {
  torch::set_num_threads(1);
  Problem problem(options);
  const std::vector<at::Device> devices(static_cast<std::size_t>(options.replicas), torch::kCPU);
  ddprun::torch::DataParallel<Sequential> model(problem.network, {.devices = devices},
                                                [&] { return Problem::make(options); });
  return median_milliseconds(options.steps, [&] {
    // As the other form's zero_grad() does; LibTorch 1.13's own fills them with zeros.
    for (auto& parameter : problem.network->parameters()) parameter.mutable_grad().reset();
    model.train(problem.input, problem.target, mean_squares);
    problem.optimizer.step();
  });
}

double by_processes(const Options& options, const WorkerEnv& env) {
  torch::set_num_threads(1);
  const auto group = ddprun::ProcessGroup::create(env);
  Problem problem(options);
  ddprun::torch::DistributedDataParallel model(problem.network, group);
  const auto input = problem.input.chunk(env.world_size)[static_cast<std::size_t>(env.rank)];
  const auto target = problem.target.chunk(env.world_size)[static_cast<std::size_t>(env.rank)];
  return median_milliseconds(options.steps, [&] {
    model.zero_grad();
    torch::mse_loss(model.forward(input), target).backward();
    problem.optimizer.step();
  });
}

/// What rank 0 of so many workers returns. Both forms run in new processes, so that neither finds
/// more than the other.
double measured(int workers, const std::function<double(const WorkerEnv&)>& form) {
  void* const shared =
      ::mmap(nullptr, sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ddprun::spawn(
      [&](const WorkerEnv& env) {
        const double result = form(env);
        if (env.rank == 0) *static_cast<double*>(shared) = result;
      },
      workers);
  const double result = *static_cast<double*>(shared);
  ::munmap(shared, sizeof(double));
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Data parallelism by threads and by processes.");
  app.add_option("--replicas", options.replicas);
  app.add_option("--width", options.width, "of the hidden layers");
  app.add_option("--rows", options.rows, "of a batch, of all replicas");
  app.add_option("--steps", options.steps, "in a round");
  app.add_option("--rounds", options.rounds);
  CLI11_PARSE(app, argc, argv);
  std::vector<double> threads;
  std::vector<double> processes;
  std::vector<double> alone;
  for (int round = 0; round < options.rounds; ++round) {
    threads.push_back(measured(1, [&](const WorkerEnv&) { return by_threads(options); }));
    processes.push_back(measured(options.replicas,
                                 [&](const WorkerEnv& env) { return by_processes(options, env); }));
    Options one = options;
    one.replicas = 1;
    alone.push_back(measured(1, [&](const WorkerEnv&) { return by_threads(one); }));
  }
  const double by_process = ddprun::bench::median(processes);
  const double by_thread = ddprun::bench::median(threads);
  std::printf("one replica   %8.2f ms a step\n", ddprun::bench::median(alone));
  std::printf("%d processes   %8.2f ms a step\n", options.replicas, by_process);
  std::printf("%d threads     %8.2f ms a step, ratio %.2f\n", options.replicas, by_thread,
              by_thread / by_process);
}
