// Trains a GPT-2 language model on one worker of a data-parallel run: setup, the loop over steps,
// and outputs. training.cpp has the training step, model.cpp the model.
#include "trainers/compute/placement.hpp"
#include "trainers/frame/console.hpp"
#include "trainers/frame/json_lines.hpp"
#include "trainers/frame/stop_signal.hpp"
#include "trainers/frame/text.hpp"
#include "trainers/gpt2/settings.hpp"
#include "trainers/gpt2/training.hpp"
#include "trainers/tracking/tracking.hpp"
#include <ddprun/worker.hpp>

#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>

namespace trainer::gpt2 {

namespace {

using ddprun::ProcessGroup;
using ddprun::WorkerEnv;
using Clock = std::chrono::steady_clock;

void log_to_stderr(ddprun::LogLevel, std::string_view text) {
  std::fprintf(stderr, "gpt2: %.*s\n", static_cast<int>(text.size()), text.data());
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
  /// floating-point operations per second of all workers' devices; 0 if unknown
  double flops_max = 0;
};

/// Throws unless the model's vocabulary contains the file's.
void check_vocabulary(const TokenFile& file, const Shape& shape) {
  if (file.vocabulary() <= shape.vocabulary) return;
  throw ddprun::Error(ddprun::Errc::usage,
                      format("%s has a vocabulary of %zu, the model one of %zu",
                             file.name().c_str(), file.vocabulary(), shape.vocabulary));
}

void save(Training& training, Outputs& outputs) {
  if (training.env.rank != 0 || !outputs.checkpoints) return;
  auto checkpoint =
      to_checkpoint(training.compute, training.model, training.optimizer,
                    {training.step, training.sampler.state().to_text()}, outputs.settings);
  outputs.tracking.save(checkpoint);
  outputs.checkpoints->save(checkpoint);
}

/// Called before the step: so when one rank saves a step that all have completed, every rank has
/// written its line.
void record_sequences(const Training& training, Outputs& outputs) {
  if (!outputs.ledger.is_open()) return;
  outputs.ledger.write({{"step", training.step + 1},
                        {"epoch", training.sampler.epoch() + 1},
                        {"sequences", training.sampler.samples()}});
}

void report_step(const Training& training, const StepResult& result, double seconds,
                 Outputs& outputs) {
  const Options& options = training.options;
  const auto tokens = static_cast<double>(global_batch(options, training.env)) *
                      static_cast<double>(options.shape.context);
  const double rate = tokens / seconds;
  const double lr = learning_rate(options, training.step);
  const double utilisation =
      outputs.flops_max > 0 ? rate * flops_per_token(options.shape) / outputs.flops_max : 0;
  nlohmann::ordered_json exposed;  // null if unknown
  if (result.exposed_seconds) exposed = *result.exposed_seconds;
  outputs.metrics.write({{"event", "step"},
                         {"step", training.step},
                         {"loss", result.loss},
                         {"gradient_norm", result.gradient_norm},
                         {"lr", lr},
                         {"seconds", seconds},
                         {"tokens_per_second", rate},
                         {"mfu", utilisation},
                         {"exposed_seconds", exposed}});
  outputs.tracking.log_step(training.step, {{"Loss/train", result.loss},
                                            {"Gradient_norm", result.gradient_norm},
                                            {"Learning_rate", lr},
                                            {"Throughput/tokens_per_second", rate},
                                            {"Throughput/mfu", utilisation}});
  if (training.step % options.print_every != 0 && training.step != options.steps) return;
  const std::string mfu =
      outputs.flops_max > 0 ? format(", MFU %.1f %%", 100 * utilisation) : std::string();
  outputs.console.line(
      format("step %lld/%lld: loss %.4f, norm %.3f, lr %.2e, %.1f ms, %.0f tokens/s%s",
             static_cast<long long>(training.step), static_cast<long long>(options.steps),
             result.loss, result.gradient_norm, lr, 1e3 * seconds, rate, mfu.c_str()));
}

void report_test(Training& training, Outputs& outputs) {
  if (training.test_data == nullptr) return;
  const double loss = test_loss(training);
  outputs.console.line(
      format("step %lld: test loss %.4f", static_cast<long long>(training.step), loss));
  outputs.metrics.write({{"event", "test"}, {"step", training.step}, {"loss", loss}});
  outputs.tracking.log(training.step, {{"Loss/test", loss}});
}

/// Returns true if a worker has received a signal to stop.
bool train_steps(Training& training, const StopSignal& stop, Outputs& outputs) {
  const Options& options = training.options;
  while (training.step < options.steps) {
    record_sequences(training, outputs);
    const auto start = Clock::now();
    const StepResult result = train_step(training, stop.received() != 0);
    report_step(training, result, seconds_since(start), outputs);
    const bool is_last = training.step == options.steps;
    if (result.stop_wanted && !is_last) return true;
    if (is_last || (options.test_every > 0 && training.step % options.test_every == 0)) {
      report_test(training, outputs);
    }
    if (!is_last && training.step % options.checkpoint_every == 0) save(training, outputs);
  }
  return false;
}

void announce(const Training& training, bool is_resumed, Outputs& outputs) {
  const Options& options = training.options;
  const WorkerEnv& env = training.env;
  const Shape& shape = options.shape;
  std::size_t values = 0;
  for (const ModelParameter& one : training.model.parameters()) values += one.spec.elements();
  outputs.console.line(
      format("%zu layers, %zu heads, %zu channels, context %zu, vocabulary %zu: %.1f M parameters",
             shape.layers, shape.heads, shape.channels, shape.context, shape.vocabulary,
             static_cast<double>(values) * 1e-6));
  outputs.console.line(
      format("%d worker%s on %s, %s, backend %s; %lld sequences a step, %zu tokens of data",
             env.world_size, env.world_size == 1 ? "" : "s", training.compute.name().c_str(),
             options.dtype.c_str(), training.group.backend().c_str(),
             static_cast<long long>(global_batch(options, env)), training.data.size()));
  if (is_resumed) {
    outputs.console.line(
        format("resumed after step %lld%s", static_cast<long long>(training.step),
               training.step >= options.steps ? ": nothing is left to do up to --steps" : ""));
  } else if (env.max_restarts > 0 && options.checkpoint_dir.empty()) {
    outputs.console.line("a restart will begin from the first step: no --checkpoint_dir is given");
  }
  outputs.metrics.write({{"event", "start"},
                         {"attempt", env.restart_count},
                         {"world_size", env.world_size},
                         {"step", training.step},
                         {"parameters", values},
                         {"flops_per_token", flops_per_token(shape)},
                         {"flops_max", outputs.flops_max},
                         {"settings", outputs.settings}});
  outputs.ledger.write({{"attempt", env.restart_count}, {"resumed_after_step", training.step}});
}

void finish(Training& training, double seconds, Outputs& outputs) {
  save(training, outputs);
  const std::uint64_t hash = check_agreement(training);
  const std::string hash_text = format("%016llx", static_cast<unsigned long long>(hash));
  outputs.console.line(format("step %lld after %.1f s, parameters %s",
                              static_cast<long long>(training.step), seconds, hash_text.c_str()));
  outputs.metrics.write({{"event", "end"},
                         {"step", training.step},
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

/// Returns null without test data.
std::unique_ptr<TokenFile> open_test_data(const Options& options) {
  if (options.test_data.empty()) return nullptr;
  auto file = std::make_unique<TokenFile>(options.test_data);
  check_vocabulary(*file, options.shape);
  if (file->windows(options.shape.context) == 0) {
    throw ddprun::Error(ddprun::Errc::usage,
                        format("%s has %zu tokens, fewer than a sequence of %zu and the next one",
                               file->name().c_str(), file->size(), options.shape.context));
  }
  return file;
}

int train(const WorkerEnv& env, Options options, Tracking& tracking) {
  const auto start = Clock::now();
  const bool is_first = env.rank == 0;
  Console console(!is_first);
  const TokenFile data(options.data);
  if (options.shape.vocabulary == 0) options.shape.vocabulary = data.vocabulary();
  check_vocabulary(data, options.shape);
  ddprun::ElasticSampler sampler = make_sampler(options, env, data);
  const auto test_data = open_test_data(options);
  const Settings settings = settings_of(options, env, data);

  const auto compute = make_compute(options.device, options.threads, env);
  Model model(*compute, options.shape, static_cast<std::size_t>(options.batch_size),
              options.type());
  // Rank 0 owns the checkpoints; all ranks resume from the one that it loads, or start with its
  // values.
  std::optional<ddprun::CheckpointDirectory> checkpoints;
  std::optional<ddprun::Checkpoint> newest;
  if (is_first) newest = open_checkpoints(options, checkpoints);
  if (is_first && !newest) model.initialise(static_cast<std::uint64_t>(options.seed));
  Optimizer optimizer(*compute, model);
  const Array sums = compute->allocate(2, ddprun::DataType::float64);
  const double flops_max = is_first ? compute->peak_flops(options.type()) * env.world_size : 0.0;

  ddprun::GroupOptions group_options;
  group_options.backend = backend_for(options.device, options.backend);
  group_options.log = log_to_stderr;
  ProcessGroup group = ProcessGroup::create(env, group_options);
  require_same_settings(group, common_settings(options, env, data, test_data.get()));
  group.set_stream(compute->stream());
  const auto progress = restore(*compute, group, model, optimizer, newest, settings);
  if (progress) sampler.load(ddprun::ElasticSampler::State::from_text(progress->sampler));

  const auto open_as = progress ? JsonLines::OpenMode::append : JsonLines::OpenMode::truncate;
  JsonLines metrics(is_first ? options.metrics : "", open_as);
  JsonLines ledger(
      options.ledger.empty() ? "" : format("%s.rank%d", options.ledger.c_str(), env.rank),
      env.restart_count > 0 ? JsonLines::OpenMode::append : open_as);
  if (is_first) {
    tracking.start(options.tracking, {.program = "gpt2",
                                      .env = env,
                                      .settings = settings,
                                      .checkpoint_dir = options.checkpoint_dir,
                                      .step = progress ? progress->step : 0,
                                      .checkpoint = newest});
  }
  newest.reset();
  Outputs outputs = {console, metrics, ledger, tracking, checkpoints, settings, flops_max};
  Training training = {options,         env,
                       *compute,        data,
                       test_data.get(), model,
                       optimizer,       sums,
                       group,           make_reducer(group, model, optimizer, options),
                       sampler,         progress ? progress->step : 0};
  training.launch_timeout = group_options.collective_timeout;
  // Without checkpoints there is nothing to save before the end.
  const StopSignal stop(!options.checkpoint_dir.empty());

  announce(training, progress.has_value(), outputs);
  const bool is_stopped = train_steps(training, stop, outputs);
  finish(training, seconds_since(start), outputs);
  if (is_stopped) console.line("stopped by a signal; run the same command to resume");
  console.check();
  if (!is_stopped) return 0;
  constexpr int kSignalExit = 128;  // exit codes of shells after a signal
  return kSignalExit + (stop.received() != 0 ? stop.received() : SIGTERM);
}

}  // namespace

/// Runs the worker and returns its exit code.
int run(const WorkerEnv& env, int argc, const char* const* argv, Tracking& tracking) {
  const CommandLine command_line = parse_command_line(argc, argv);
  if (command_line.help.empty()) return train(env, command_line.options, tracking);
  Console console(env.rank != 0);
  console.line(command_line.help.substr(0, command_line.help.find_last_not_of('\n') + 1));
  console.check();
  return 0;
}

}  // namespace trainer::gpt2

int main(int argc, char** argv) {
  trainer::Tracking tracking(trainer::gpt2::log_to_stderr);
  const int exit_code = ddprun::run_worker(
      [&](const ddprun::WorkerEnv& env) { return trainer::gpt2::run(env, argc, argv, tracking); });
  // Last, so that the launcher learns of a failure without waiting for a slow server.
  tracking.finish(exit_code);
  return exit_code;
}
