// Trains a small network on one worker of a data-parallel run: outputs, the loop over epochs, and
// setup. training.cpp has the training step.
#include "trainers/compute/placement.hpp"
#include "trainers/frame/checkpoint_sharing.hpp"
#include "trainers/frame/console.hpp"
#include "trainers/frame/json_lines.hpp"
#include "trainers/frame/stop_signal.hpp"
#include "trainers/frame/text.hpp"
#include "trainers/tracking/tracking.hpp"
#include "trainers/trainer/batches.hpp"
#include "trainers/trainer/collective_trace.hpp"
#include "trainers/trainer/dataset.hpp"
#include "trainers/trainer/setup.hpp"
#include "trainers/trainer/training.hpp"
#include <ddprun/worker.hpp>

#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <optional>

namespace trainer {

namespace {

using ddprun::ProcessGroup;
using ddprun::WorkerEnv;
using Clock = std::chrono::steady_clock;

void log_to_stderr(ddprun::LogLevel, std::string_view text) {
  std::fprintf(stderr, "trainer: %.*s\n", static_cast<int>(text.size()), text.data());
}

void warn_on_stderr(ddprun::LogLevel level, std::string_view text) {
  if (level >= ddprun::LogLevel::warn) log_to_stderr(level, text);
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Output files of the run. Only rank 0 opens all of them.
struct Outputs {
  Console& console;
  JsonLines& metrics;
  JsonLines& ledger;
  Tracking& tracking;
  std::optional<ddprun::CheckpointDirectory>& checkpoints;
  const Settings& settings;
};

void save(Training& training, Outputs& outputs) {
  if (!outputs.checkpoints) return;
  auto checkpoint =
      to_checkpoint(training.model, training.optimizer, training.progress, outputs.settings);
  outputs.tracking.save(checkpoint);
  outputs.checkpoints->save(checkpoint);
}

/// Called before the step: so when one rank saves a step that all have completed, every rank has
/// written its line.
void record_samples(const Training& training, std::span<const std::int64_t> own_samples,
                    Outputs& outputs) {
  if (!outputs.ledger.is_open()) return;
  outputs.ledger.write({{"step", training.progress.step + 1},
                        {"epoch", training.progress.epoch + 1},
                        {"samples", std::vector(own_samples.begin(), own_samples.end())}});
}

void record_step(const Training& training, const StepResult& result, Outputs& outputs) {
  outputs.tracking.log_step(
      training.progress.step,
      {{"Loss/step", result.loss}, {"Time/exposed_seconds", result.exposed_seconds}});
  if (!outputs.metrics.is_open()) return;
  outputs.metrics.write({{"event", "step"},
                         {"step", training.progress.step},
                         {"epoch", training.progress.epoch + 1},
                         {"loss", result.loss},
                         {"samples", result.samples},
                         {"exposed_seconds", result.exposed_seconds}});
}

void report_epoch(Training& training, double samples_per_second, Outputs& outputs) {
  const Evaluation evaluation = evaluate(training);
  const Progress& progress = training.progress;
  const double loss = progress.epoch_loss / static_cast<double>(training.data.train.samples);
  const std::string accuracy = std::isnan(evaluation.accuracy)
                                   ? format("test loss %.4f", evaluation.loss)
                                   : format("accuracy %.2f %%", 100 * evaluation.accuracy);
  outputs.console.line(format(
      "epoch %lld/%lld: loss %.4f, %s, %.0f samples/s", static_cast<long long>(progress.epoch) + 1,
      static_cast<long long>(training.options.epochs), loss, accuracy.c_str(), samples_per_second));
  outputs.metrics.write({{"event", "epoch"},
                         {"epoch", progress.epoch + 1},
                         {"loss", loss},
                         {"test_loss", evaluation.loss},
                         {"test_accuracy", evaluation.accuracy},  // null without classes
                         {"samples_per_second", samples_per_second}});
  outputs.tracking.log(progress.step, {{"Loss/train", loss},
                                       {"Loss/test", evaluation.loss},
                                       {"Accuracy/test", evaluation.accuracy},
                                       {"Throughput/samples_per_second", samples_per_second}});
}

enum class EpochEnd { complete, limit_reached, stopped };

/// Trains from the current position to the end of the epoch.
EpochEnd train_epoch(Training& training, const StopSignal& stop, Outputs& outputs) {
  const Options& options = training.options;
  Progress& progress = training.progress;
  const auto samples = static_cast<std::int64_t>(training.data.train.samples);
  const EpochBatches batches({.samples = samples,
                              .world_size = training.env.world_size,
                              .rank = training.env.rank,
                              .batch_size = options.batch_size,
                              .gradient_accumulation = options.gradient_accumulation,
                              .global_batch = options.global_batch_size,
                              .seed = static_cast<std::uint64_t>(options.seed)},
                             progress.epoch);
  const auto start = Clock::now();
  const std::int64_t used_before = progress.samples_used;
  const auto limit_reached = [&] {
    return options.max_steps > 0 && progress.step >= options.max_steps;
  };
  BarState shown;
  bool stop_wanted = false;
  while (progress.samples_used < samples && !limit_reached() && !stop_wanted) {
    const std::int64_t step = progress.samples_used / batches.global_batch();
    record_samples(training, batches.step_samples(step), outputs);
    const StepResult result = train_step(training, batches, step, stop.received() != 0);
    record_step(training, result, outputs);
    shown = {.epoch = progress.epoch,
             .epochs = options.epochs,
             .step = step + 1,
             .steps = batches.steps(),
             .loss = progress.epoch_loss / static_cast<double>(progress.samples_used)};
    outputs.console.bar(shown);
    if (progress.step % options.checkpoint_every == 0) save(training, outputs);
    stop_wanted = result.stop_wanted;
  }
  if (stop_wanted || progress.samples_used < samples) {
    if (shown.step > 0) outputs.console.line(unfinished_epoch(shown));
    return stop_wanted ? EpochEnd::stopped : EpochEnd::limit_reached;
  }
  const double rate =
      static_cast<double>(progress.samples_used - used_before) / seconds_since(start);
  check_agreement(training);
  report_epoch(training, rate, outputs);
  ++progress.epoch;
  progress.samples_used = 0;
  progress.epoch_loss = 0;
  return EpochEnd::complete;
}

void announce(const Training& training, bool resumed, Outputs& outputs) {
  const Options& options = training.options;
  const WorkerEnv& env = training.env;
  const Progress& progress = training.progress;
  std::size_t values = 0;
  for (const Parameter* parameter : training.model.parameters()) values += parameter->elements();
  const std::string where =
      options.device == "cpu"
          ? std::string()
          : " on " + training.compute.name() + " in " + options.dtype +
                (options.embedding_device == options.device ? "" : ", the embedding on the CPU");
  outputs.console.line(format("%s (%zu parameters) on %s, %d worker%s%s, backend %s",
                              options.model.c_str(), values, options.dataset.c_str(),
                              env.world_size, env.world_size == 1 ? "" : "s", where.c_str(),
                              training.group.backend().c_str()));
  if (resumed) {
    outputs.console.line(resumed_text(progress, options));
  } else if (env.max_restarts > 0 && options.checkpoint_dir.empty()) {
    outputs.console.line("a restart will begin from the first step: no --checkpoint_dir is given");
  }
  outputs.metrics.write({{"event", "start"},
                         {"attempt", env.restart_count},
                         {"world_size", env.world_size},
                         {"step", progress.step},
                         {"parameters", values},
                         {"settings", outputs.settings}});
  outputs.ledger.write({{"attempt", env.restart_count}, {"resumed_after_step", progress.step}});
}

/// Trains until all epochs are completed, the limit of steps is reached, or a signal has been
/// received.
EpochEnd train_epochs(Training& training, const StopSignal& stop, Outputs& outputs) {
  while (training.progress.epoch < training.options.epochs) {
    const EpochEnd end = train_epoch(training, stop, outputs);
    if (end != EpochEnd::complete) return end;
  }
  return EpochEnd::complete;
}

void finish(Training& training, double seconds, Outputs& outputs) {
  save(training, outputs);
  const std::uint64_t hash = check_agreement(training);
  const std::string hash_text = format("%016llx", static_cast<unsigned long long>(hash));
  outputs.console.line(format("step %lld after %.1f s, parameters %s",
                              static_cast<long long>(training.progress.step), seconds,
                              hash_text.c_str()));
  outputs.metrics.write(ddp_event(training.reducer));
  outputs.metrics.write({{"event", "end"},
                         {"step", training.progress.step},
                         {"epoch", epoch_of_last_step(training.progress)},
                         {"seconds", seconds},
                         {"parameters_hash", hash_text}});
}

/// Returns the newest checkpoint if checkpoints are enabled and there is one.
std::optional<ddprun::Checkpoint> open_checkpoints(
    const Options& options, std::optional<ddprun::CheckpointDirectory>& checkpoints) {
  if (options.checkpoint_dir.empty()) return std::nullopt;
  checkpoints.emplace(options.checkpoint_dir,
                      ddprun::CheckpointDirectory::Options{.log = warn_on_stderr});
  // Before reading, so that another running process cannot save further steps.
  checkpoints->claim();
  return checkpoints->load_newest();
}

ProcessGroup make_group(const Options& options, const WorkerEnv& env, CollectiveTrace& trace) {
  ddprun::GroupOptions group_options;
  group_options.backend = backend_for(options.device, options.backend);
  group_options.log = log_to_stderr;
  group_options.on_collective = trace.recorder();
  return ProcessGroup::create(env, group_options);
}

/// Returns the exit code of shells after a signal. Another rank may have received it.
int exit_code_of(const StopSignal& stop) {
  constexpr int kSignalExit = 128;
  return kSignalExit + (stop.received() != 0 ? stop.received() : SIGTERM);
}

/// Keeps the lines of earlier attempts, also of one that failed before its first checkpoint.
JsonLines::OpenMode open_mode(const WorkerEnv& env, bool is_resumed) {
  return is_resumed || env.restart_count > 0 ? JsonLines::OpenMode::append
                                             : JsonLines::OpenMode::truncate;
}

int train(const WorkerEnv& env, const Options& options, CollectiveTrace& trace,
          Tracking& tracking) {
  const auto start = Clock::now();
  const bool is_first = env.rank == 0;
  Console console(!is_first);
  const TrainAndTest data = load_data(options);
  const Settings settings = settings_of(options, env, data.train);
  const Computes computes = make_computes(options, env);
  const Places places = computes.places(options);
  Compute& compute = *computes.rest;
  Model model = make_model(options, data.train, places);
  const auto optimizer = make_optimizer(options, model);
  const Array sums = compute.allocate(2, ddprun::DataType::float64);
  ProcessGroup group = make_group(options, env, trace);
  group.set_stream(compute.stream());

  // Rank 0 owns the checkpoints; all ranks resume from the one that it loads.
  std::optional<ddprun::CheckpointDirectory> checkpoints;
  std::optional<ddprun::Checkpoint> newest;
  if (is_first) newest = open_checkpoints(options, checkpoints);
  newest = share_checkpoint(group, newest);
  Progress progress;
  if (newest) progress = restore(*newest, model, *optimizer, settings);

  const auto open_as = open_mode(env, newest.has_value());
  JsonLines metrics(is_first ? options.metrics : "", open_as);
  JsonLines ledger(
      options.ledger.empty() ? "" : format("%s.rank%d", options.ledger.c_str(), env.rank), open_as);
  if (is_first) {
    tracking.start(options.tracking, {.program = "trainer",
                                      .env = env,
                                      .settings = settings,
                                      .checkpoint_dir = options.checkpoint_dir,
                                      .step = progress.step,
                                      .checkpoint = newest});
  }
  Outputs outputs = {console, metrics, ledger, tracking, checkpoints, settings};
  Training training = {options,
                       env,
                       data,
                       compute,
                       sums,
                       group,
                       model,
                       *optimizer,
                       ModelReducer(group, model, options),
                       progress,
                       trace,
                       Loss(places.rest, options.loss),
                       DeviceBatch(places),
                       {.as_tokens = options.model == "bag"}};
  // Without checkpoints there is nothing to save before the end.
  const StopSignal stop(!options.checkpoint_dir.empty());

  announce(training, newest.has_value(), outputs);
  const EpochEnd end = train_epochs(training, stop, outputs);
  finish(training, seconds_since(start), outputs);
  if (end == EpochEnd::stopped) console.line("stopped by a signal; run the same command to resume");
  console.check();
  return end == EpochEnd::stopped ? exit_code_of(stop) : 0;
}

}  // namespace

/// Runs the worker and returns its exit code.
int run(const WorkerEnv& env, int argc, const char* const* argv, Tracking& tracking) {
  const CommandLine command_line = parse_command_line(argc, argv);
  if (!command_line.help.empty()) {
    Console console(env.rank != 0);
    console.line(command_line.help.substr(0, command_line.help.find_last_not_of('\n') + 1));
    console.check();
    return 0;
  }
  // Outlives the process group, whose thread writes to it.
  CollectiveTrace trace(command_line.options.trace_collectives, env.rank, env.restart_count);
  const int exit_code = train(env, command_line.options, trace, tracking);
  trace.close();
  return exit_code;
}

}  // namespace trainer

int main(int argc, char** argv) {
  trainer::Tracking tracking(trainer::log_to_stderr);
  const int exit_code = ddprun::run_worker(
      [&](const ddprun::WorkerEnv& env) { return trainer::run(env, argc, argv, tracking); });
  // Last, so that the launcher learns of a failure without waiting for a slow server.
  tracking.finish(exit_code);
  return exit_code;
}
