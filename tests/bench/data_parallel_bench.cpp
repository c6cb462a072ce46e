// Compares a training step of threads of one process (DataParallel) with one of processes (spawn()
// and DistributedDataParallel), on the CPU with one computing thread for each replica; with
// --native for a model without modules that has its own passes. The forms alternate; prints their
// medians over the rounds.
#include "tests/bench/statistics.hpp"
#include <ddprun/data_parallel.hpp>
#include <ddprun/gradient_reducer.hpp>
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
#include <utility>
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
  bool is_native = false;
  bool is_copied = false;
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
    // Like zero_grad() of the other form; LibTorch 1.13's own fills them with zeros.
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

/// The same network without biases. LibTorch only multiplies its matrices.
class Layers {
 public:
  explicit Layers(const Options& options) {
    torch::manual_seed(1);
    for (const auto& [outputs, inputs] :
         {std::pair{options.width, std::int64_t{10}}, std::pair{options.width, options.width},
          std::pair{std::int64_t{5}, options.width}}) {
      shapes_.push_back({outputs, inputs});
      values_.emplace_back(static_cast<std::size_t>(outputs * inputs));
      matrix(values_.size() - 1).normal_(0, 0.01);
    }
  }

  std::vector<ddprun::Parameter> parameters() {
    std::vector<ddprun::Parameter> parameters;
    for (auto& values : values_) {
      parameters.push_back({"weight" + std::to_string(parameters.size()),
                            ddprun::as_buffer(values.data(), values.size())});
    }
    return parameters;
  }

  /// Gradients of these rows, the last layer's first.
  void learn(ddprun::GradientReducer& reducer, const torch::Tensor& input,
             const torch::Tensor& target) {
    std::vector<torch::Tensor> inputs{input};
    for (std::size_t i = 0; i < 2; ++i) inputs.push_back(inputs[i].mm(matrix(i).t()).relu());
    torch::Tensor error = inputs[2].mm(matrix(2).t()).sub(target).mul(2.0 / 5);
    for (std::size_t i = 3; i-- > 0;) {
      torch::Tensor gradient = view(reducer.gradient(i).data, i);
      torch::mm_out(gradient, error.t(), inputs[i]);
      reducer.ready(i);
      if (i > 0) error = error.mm(matrix(i)).mul(inputs[i].gt(0));
    }
  }

  void update(std::size_t layer, const ddprun::Buffer& gradient) {
    matrix(layer).sub_(view(gradient.data, layer), 1e-3);
  }

 private:
  torch::Tensor view(void* data, std::size_t layer) const {
    return torch::from_blob(data, {shapes_[layer].first, shapes_[layer].second});
  }
  torch::Tensor matrix(std::size_t layer) { return view(values_[layer].data(), layer); }

  std::vector<std::pair<std::int64_t, std::int64_t>> shapes_;
  std::vector<std::vector<float>> values_;
};

double native_by_threads(const Options& options) {
  torch::set_num_threads(1);
  const torch::NoGradGuard no_graph;
  const Problem problem(options);
  Layers layers(options);
  ddprun::DataParallel<Layers> parallel(layers, options.replicas);
  const auto learn = [&](Layers& copy, ddprun::GradientReducer& reducer,
                         const ddprun::Replica& replica) {
    const torch::NoGradGuard none_here_either;
    const auto part = static_cast<std::size_t>(replica.index);
    copy.learn(reducer, problem.input.chunk(replica.count)[part],
               problem.target.chunk(replica.count)[part]);
  };
  if (options.is_copied) {
    return median_milliseconds(options.steps, [&] {
      parallel.step(learn);
      for (std::size_t i = 0; i < 3; ++i) layers.update(i, parallel.gradient(i));
    });
  }
  parallel.set_zero_gradients(false);
  const auto update = [](Layers& copy, ddprun::GradientReducer& reducer, const ddprun::Replica&) {
    const torch::NoGradGuard none_here_either;
    for (std::size_t i = 0; i < 3; ++i) copy.update(i, reducer.gradient(i));
  };
  return median_milliseconds(options.steps, [&] { parallel.step(learn, update); });
}

double native_by_processes(const Options& options, const WorkerEnv& env) {
  torch::set_num_threads(1);
  const torch::NoGradGuard no_graph;
  const auto group = ddprun::ProcessGroup::create(env);
  const Problem problem(options);
  Layers layers(options);
  ddprun::GradientReducer reducer(group, layers.parameters());
  const auto part = static_cast<std::size_t>(env.rank);
  const auto input = problem.input.chunk(env.world_size)[part];
  const auto target = problem.target.chunk(env.world_size)[part];
  return median_milliseconds(options.steps, [&] {
    reducer.begin();
    layers.learn(reducer, input, target);
    reducer.finish();
    for (std::size_t i = 0; i < 3; ++i) layers.update(i, reducer.gradient(i));
  });
}

/// Result of rank 0 of this number of workers. Both forms run in new processes, for equal
/// conditions.
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
  app.add_flag("--native", options.is_native, "a model with passes of its own");
  app.add_flag("--copied", options.is_copied,
               "native: one update, parameters copied and gradients zeroed in each step");
  CLI11_PARSE(app, argc, argv);
  const auto threads_form = options.is_native ? native_by_threads : by_threads;
  const auto processes_form = options.is_native ? native_by_processes : by_processes;
  std::vector<double> threads;
  std::vector<double> processes;
  std::vector<double> alone;
  for (int round = 0; round < options.rounds; ++round) {
    threads.push_back(measured(1, [&](const WorkerEnv&) { return threads_form(options); }));
    processes.push_back(measured(
        options.replicas, [&](const WorkerEnv& env) { return processes_form(options, env); }));
    Options one = options;
    one.replicas = 1;
    alone.push_back(measured(1, [&](const WorkerEnv&) { return threads_form(one); }));
  }
  const double by_process = ddprun::bench::median(processes);
  const double by_thread = ddprun::bench::median(threads);
  std::printf("one replica   %8.2f ms a step\n", ddprun::bench::median(alone));
  std::printf("%d processes   %8.2f ms a step\n", options.replicas, by_process);
  std::printf("%d threads     %8.2f ms a step, ratio %.2f\n", options.replicas, by_thread,
              by_thread / by_process);
}
