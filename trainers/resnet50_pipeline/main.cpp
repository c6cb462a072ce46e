// Trains a ResNet-50 as one stage per worker or as two pipeline stages, to compare their cost.
#include "trainers/frame/console.hpp"
#include "trainers/frame/json_lines.hpp"
#include "trainers/frame/text.hpp"
#include "trainers/resnet50_pipeline/options.hpp"
#include "trainers/resnet50_pipeline/resnet.hpp"
#include <ddprun/error.hpp>
#include <ddprun/torch/pipeline.hpp>
#include <ddprun/worker.hpp>

#include <nlohmann/json.hpp>
#include <torch/nn/functional/loss.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>

namespace trainer::resnet50 {

namespace {

using ddprun::PipelinePlace;
using ddprun::torch::ModuleReducer;
using ddprun::torch::Pipeline;
using ddprun::torch::PipelineBatch;
using Clock = std::chrono::steady_clock;
using torch::Tensor;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// "1 stage", "2 stages".
std::string counted(std::int64_t count, const char* thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

/// Returns random images on the first stage and their random classes on the last, equal on all
/// workers.
PipelineBatch make_batch(const Options& options, const PipelinePlace& place, std::int64_t number) {
  PipelineBatch batch{.rows = options.batch_size, .input = {}, .target = {}};
  const auto seed =
      options.seed + static_cast<std::uint64_t>(number * place.replicas + place.replica) * 2 + 1;
  if (place.is_first()) {
    torch::manual_seed(seed);
    batch.input = torch::randn({batch.rows, 3, options.image_size, options.image_size});
  }
  if (place.is_last()) {
    torch::manual_seed(seed + 1);
    const Tensor classes = torch::randint(options.classes, {batch.rows}, torch::kLong);
    batch.target = torch::one_hot(classes, options.classes).to(torch::kFloat);
  }
  return batch;
}

/// Output of the run. Only the last stage of the first replica has the loss.
class Report {
 public:
  Report(const Options& options, const PipelinePlace& place)
      : options_(options),
        place_(place),
        console_(!is_reporter()),
        metrics_(is_reporter() ? options.metrics : std::string(), JsonLines::OpenMode::truncate) {}

  void start() {
    const bool is_split = options_.split_size > 0 && options_.split_size < options_.batch_size;
    console_.line(
        "resnet50_pipeline: " + counted(place_.stages, "stage") + ", " +
        counted(place_.replicas, "replica") + ", batches of " +
        counted(options_.batch_size, "image") + " in " +
        (is_split ? "micro-batches of " + std::to_string(options_.split_size) : "one piece") +
        ", " + to_string(options_.schedule));
    write({{"event", "start"},
           {"stages", place_.stages},
           {"replicas", place_.replicas},
           {"batch_size", options_.batch_size},
           {"split_size", options_.split_size},
           {"schedule", to_string(options_.schedule)}});
  }

  void batch(std::int64_t number, double loss, double seconds) {
    console_.line(format("batch %ld/%ld: loss %.7f, %.2f s", long{number + 1},
                         long{options_.batches}, loss, seconds));
    write({{"event", "batch"}, {"batch", number + 1}, {"loss", loss}, {"seconds", seconds}});
  }

  void end(double seconds) {
    const auto images =
        static_cast<double>(options_.batches * options_.batch_size * place_.replicas);
    console_.line(
        format("%.0f images in %.2f s, %.2f a second", images, seconds, images / seconds));
    write({{"event", "end"}, {"seconds", seconds}, {"images_per_second", images / seconds}});
    console_.check();
  }

 private:
  bool is_reporter() const { return place_.is_last() && place_.replica == 0; }
  void write(const nlohmann::ordered_json& line) {
    if (metrics_.is_open()) metrics_.write(line);
  }

  const Options& options_;
  const PipelinePlace& place_;
  Console console_;
  JsonLines metrics_;
};

/// Blocks until all workers have connected.
void train(ddprun::ProcessGroup& workers, const Options& options) {
  if (workers.size() % options.stages != 0) {
    const auto stages = std::to_string(options.stages);
    throw ddprun::Error(ddprun::Errc::usage,
                        "--stages " + stages + " needs a multiple of " + stages +
                            " workers and there are " + std::to_string(workers.size()) +
                            ": start as many by --nproc_per_node, or let each have the whole "
                            "model by --stages 1");
  }
  auto groups = make_pipeline_groups(workers, options.stages);
  const PipelinePlace& place = groups.place;
  auto stage = make_stage(place.stage, place.stages, options.classes, options.seed);
  ModuleReducer reducer(*stage, groups.replicas);
  Pipeline pipeline([&](const Tensor& input) { return stage->forward(input); }, groups.stages,
                    {.schedule = options.schedule, .split_size = options.split_size}, &reducer);
  torch::optim::SGD optimizer(stage->parameters(), torch::optim::SGDOptions(options.lr));

  Report report(options, place);
  report.start();
  double seconds = 0;
  for (std::int64_t number = 0; number < options.batches; ++number) {
    const auto batch = make_batch(options, place, number);
    workers.barrier().wait();
    const auto start = Clock::now();
    reducer.zero_grad();
    const auto mean_squares = [](const Tensor& output, const Tensor& target) {
      return torch::nn::functional::mse_loss(output, target);
    };
    const Tensor loss = pipeline.train(batch, mean_squares);
    optimizer.step();
    // The step ends when the first stage, whose backward pass is last, has updated its parameters.
    workers.barrier().wait();
    const double taken = seconds_since(start);
    seconds += taken;
    report.batch(number, loss.defined() ? loss.item<double>() : 0, taken);
  }
  report.end(seconds);
}

int run(const ddprun::WorkerEnv& env, int argc, char** argv) {
  const auto command_line = parse_command_line(argc, argv);
  if (!command_line.help.empty()) {
    std::fputs(command_line.help.c_str(), stdout);
    return 0;
  }
  auto workers = ddprun::ProcessGroup::create(env);
  train(workers, command_line.options);
  return 0;
}

}  // namespace

}  // namespace trainer::resnet50

int main(int argc, char** argv) {
  return ddprun::run_worker(
      [&](const ddprun::WorkerEnv& env) { return trainer::resnet50::run(env, argc, argv); });
}
