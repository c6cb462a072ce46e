// Overhead of data parallelism in a training step: the same step with and without the exchange of
// gradients, alternating, on every worker.
//   ddprun --nproc_per_node=2 ddp_step_bench [--batch N] [--steps N] [--rounds N] [--backend B]
// The model has 24 MiB of gradients. Rank 0 prints a JSON line per round:
//   {"local_ms": ..., "ddp_ms": ..., "exposed_ms": ...}    medians over the round's steps
#include "tests/bench/statistics.hpp"
#include "trainers/trainer/loss.hpp"
#include "trainers/trainer/model.hpp"
#include "trainers/trainer/optimizer.hpp"
#include <ddprun/gradient_reducer.hpp>
#include <ddprun/worker.hpp>

#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace ddprun;
using Clock = std::chrono::steady_clock;

struct Options {
  std::size_t batch = 256;
  int steps = 10;
  int rounds = 7;
  std::string backend = "host";
};

/// 6.3 million parameters.
trainer::Model make_network(const trainer::Place& place) {
  constexpr std::size_t kSizes[] = {784, 2048, 2048, 256, 10};
  std::mt19937 random(0);
  std::vector<std::unique_ptr<trainer::Layer>> layers;
  for (std::size_t i = 0; i + 1 < std::size(kSizes); ++i) {
    if (i > 0) {
      layers.push_back(
          std::make_unique<trainer::ActivationLayer>(place, trainer::ActivationFunction::relu));
    }
    layers.push_back(
        std::make_unique<trainer::LinearLayer>(place, kSizes[i], kSizes[i + 1], random));
  }
  return trainer::Model(std::move(layers));
}

class Training {
 public:
  Training(const WorkerEnv& env, const Options& options)
      : group_(make_group(env, options)),
        model_(make_network(place_)),
        optimizer_(model_.parameters(), 0.9F),
        reducer_(group_, described(model_)) {
    for (trainer::Parameter* parameter : model_.parameters()) {
      parameter->gradient = reducer_.gradient(parameter->index);
    }
    std::mt19937 random(static_cast<unsigned>(env.rank));
    batch_.rows = options.batch;
    batch_.features = 784;
    batch_.inputs.resize(options.batch * batch_.features);
    batch_.labels.resize(options.batch);
    for (float& value : batch_.inputs) value = static_cast<float>(random() % 256) / 256;
    for (auto& label : batch_.labels) label = static_cast<std::int32_t>(random() % 10);
    loaded_.load(batch_);
  }

  /// Milliseconds of a step, and those spent only on waiting.
  std::pair<double, double> step(bool synchronise) {
    const auto start = Clock::now();
    reducer_.zero_gradients();
    const trainer::Matrix& output = model_.forward(loaded_.inputs, trainer::Mode::train);
    loss_.run(output, loaded_, 1 / static_cast<double>(batch_.rows), total_.buffer);
    reducer_.begin(synchronise);
    model_.backward(loaded_.inputs, output, [this](const trainer::Parameter& parameter) {
      reducer_.ready(parameter.index);
    });
    const double exposed = reducer_.finish().exposed_seconds();
    optimizer_.update(model_.parameters(), ++steps_, 1e-3F);
    const std::chrono::duration<double, std::milli> taken = Clock::now() - start;
    return {taken.count(), exposed * 1e3};
  }

  void meet() { group_.barrier().wait(); }

 private:
  static ProcessGroup make_group(const WorkerEnv& env, const Options& options) {
    GroupOptions group_options;
    group_options.backend = options.backend;
    return ProcessGroup::create(env, group_options);
  }

  static std::vector<Parameter> described(trainer::Model& model) {
    std::vector<Parameter> parameters;
    for (trainer::Parameter* parameter : model.parameters()) {
      parameters.push_back({parameter->name, parameter->master.buffer, parameter->shape});
    }
    return parameters;
  }

  std::unique_ptr<trainer::Compute> compute_ = trainer::make_cpu_compute(1);
  trainer::Place place_ = {compute_.get()};
  ProcessGroup group_;
  trainer::Model model_;
  trainer::SgdOptimizer optimizer_;
  GradientReducer reducer_;
  trainer::Batch batch_;
  trainer::DeviceBatch loaded_{{place_, place_}};
  trainer::Loss loss_{place_, "cross_entropy"};
  trainer::Array total_ = compute_->allocate(1, DataType::float64);
  std::int64_t steps_ = 0;
};

int run(const WorkerEnv& env, const Options& options) {
  Training training(env, options);
  for (int i = 0; i < 3; ++i) training.step(true);
  for (int round = 0; round < options.rounds; ++round) {
    std::vector<double> local;
    std::vector<double> together;
    std::vector<double> exposed;
    training.meet();
    for (int i = 0; i < options.steps; ++i) local.push_back(training.step(false).first);
    training.meet();
    for (int i = 0; i < options.steps; ++i) {
      const auto [taken, waited] = training.step(true);
      together.push_back(taken);
      exposed.push_back(waited);
    }
    if (env.rank != 0) continue;
    std::printf(R"({"local_ms": %.3f, "ddp_ms": %.3f, "exposed_ms": %.3f})"
                "\n",
                bench::median(local), bench::median(together), bench::median(exposed));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Times training steps with and without the exchange of gradients"};
  app.option_defaults()->always_capture_default();
  app.add_option("--batch", options.batch, "samples of a worker")->check(CLI::Range(1, 65536));
  app.add_option("--steps", options.steps, "of each kind in a round")->check(CLI::Range(1, 10000));
  app.add_option("--rounds", options.rounds)->check(CLI::Range(1, 1000));
  app.add_option("--backend", options.backend, "of the process group");
  CLI11_PARSE(app, argc, argv);
  return run_worker([&](const WorkerEnv& env) { return run(env, options); });
}
