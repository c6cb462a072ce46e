#include "trainers/tracking/tracking.hpp"

#include "trainers/tracking/event_file.hpp"
#include "trainers/tracking/mlflow_sender.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <sys/random.h>
#include <utility>
#include <vector>

namespace trainer {

namespace {

constexpr const char* kSection = "tracking";
/// The run id of torchrun, and of ddprun over several nodes, if none is given.
constexpr const char* kNoRunId = "none";
constexpr int kSignalExit = 128;

std::string random_id() {
  // Not std::random_device, which raises the glibc that a static program needs to 2.36.
  std::array<unsigned char, 16> bytes = {};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    ddprun::throw_system_error("no random bytes", errno);
  }
  constexpr char kDigits[] = "0123456789abcdef";
  std::string id;
  for (const unsigned char byte : bytes) {
    id += kDigits[byte >> 4];
    id += kDigits[byte & 15];
  }
  return id;
}

Texts texts_of(const nlohmann::json& settings) {
  Texts texts;
  for (const auto& [name, value] : settings.items()) {
    texts[name] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return texts;
}

Texts tags_of(const TrackedRun& run, const std::string& user) {
  Texts tags = {{"mlflow.source.name", run.program},
                {"mlflow.source.type", "LOCAL"},
                {"ddprun.attempt", std::to_string(run.env.restart_count)},
                {"ddprun.nodes", std::to_string(run.env.node_count)},
                {"ddprun.world_size", std::to_string(run.env.world_size)}};
  if (!user.empty()) tags["mlflow.user"] = user;
  if (!run.checkpoint_dir.empty()) {
    tags["ddprun.checkpoint_dir"] = std::filesystem::absolute(run.checkpoint_dir).string();
  }
  return tags;
}

/// From save().
struct SavedState {
  std::string tracking_id;
  bool has_run = false;  ///< the server has created the run
  nlohmann::json points;
};

/// Nothing if the checkpoint has no such state, or, with a warning, if it is malformed.
std::optional<SavedState> saved_state(const std::optional<ddprun::Checkpoint>& checkpoint,
                                      const ddprun::Log& log) {
  if (!checkpoint) return std::nullopt;
  const auto found = checkpoint->sections.find(kSection);
  if (found == checkpoint->sections.end()) return std::nullopt;
  const auto* text = reinterpret_cast<const char*>(found->second.data());
  try {
    const auto json = nlohmann::json::parse(text, text + found->second.size());
    return SavedState{.tracking_id = json.at("tracking_id"),
                      .has_run = json.at("has_run"),
                      .points = json.at("points")};
  } catch (const nlohmann::json::exception& error) {
    write_log(log, ddprun::LogLevel::warn,
              std::string("checkpoint: the section '") + kSection + "' is malformed (" +
                  error.what() + "); a new MLflow run is created");
    return std::nullopt;
  }
}

RunStatus status_of(int exit_code) {
  if (exit_code == 0) return RunStatus::finished;
  return exit_code > kSignalExit ? RunStatus::killed : RunStatus::failed;
}

}  // namespace

Tracking::Tracking(ddprun::Log log) : log_(std::move(log)) {}

Tracking::~Tracking() = default;

void Tracking::start(const TrackingOptions& options, const TrackedRun& run) {
  track_every_ = options.track_every;
  has_restarts_left_ = run.env.restart_count < run.env.max_restarts;
  if (!options.tensorboard.empty()) start_events(options, run);
  if (options.server) start_mlflow(options, run);
}

void Tracking::start_events(const TrackingOptions& options, const TrackedRun& run) {
  std::optional<std::int64_t> restart;
  if (run.env.restart_count > 0) restart = 0;
  if (run.checkpoint) restart = run.step + 1;
  try {
    events_ = std::make_unique<EventFile>(options.tensorboard, restart);
    if (!run.checkpoint) events_->write_settings(texts_of(run.settings));
  } catch (const ddprun::Error& error) {
    if (error.code() == ddprun::Errc::usage) throw;
    stop_events(error);
  }
}

void Tracking::write_events(std::int64_t step, std::span<const Scalar> scalars) {
  try {
    events_->write(step, scalars);
  } catch (const ddprun::Error& error) {
    stop_events(error);
  }
}

void Tracking::stop_events(const ddprun::Error& error) {
  events_.reset();
  write_log(log_, ddprun::LogLevel::warn,
            std::string("TensorBoard: ") + error.what() +
                "; the training continues without TensorBoard's events");
}

void Tracking::start_mlflow(const TrackingOptions& options, const TrackedRun& run) {
  has_checkpoints_ = !run.checkpoint_dir.empty();
  const auto saved = saved_state(run.checkpoint, log_);
  Backlog backlog;
  if (saved) backlog.add(saved->points);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  mlflow_ = std::make_unique<MlflowSender>(
      *options.server, options.authorization,
      RunDescription{
          .experiment = options.experiment,
          .tracking_id = saved ? saved->tracking_id : random_id(),
          .run_id = run.env.run_id == kNoRunId ? "" : run.env.run_id,
          .is_restart = run.env.restart_count > 0,
          .has_run = saved && saved->has_run,
          .start_milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(now).count(),
          .parameters = texts_of(run.settings),
          .tags = tags_of(run, options.user)},
      std::move(backlog), log_);
}

void Tracking::log_step(std::int64_t step, std::initializer_list<Scalar> scalars) {
  if (track_every_ > 0 && step % track_every_ == 0) log(Backlog::Kind::step, step, scalars);
}

void Tracking::log(std::int64_t step, std::initializer_list<Scalar> scalars) {
  log(Backlog::Kind::epoch, step, scalars);
}

void Tracking::log(Backlog::Kind kind, std::int64_t step, std::initializer_list<Scalar> scalars) {
  std::vector<Scalar> finite;  // a loop passes NaN for values that it has not measured
  for (const Scalar& scalar : scalars) {
    if (std::isfinite(scalar.second)) finite.push_back(scalar);
  }
  if (events_ && !finite.empty()) write_events(step, finite);
  if (!mlflow_) return;
  for (const auto& [name, value] : finite) {
    mlflow_->push(kind, {.name = name, .value = value, .step = step});
  }
}

void Tracking::save(ddprun::Checkpoint& checkpoint) const {
  if (!mlflow_) return;
  ddprun::put_section(checkpoint, kSection, mlflow_->state().dump());
}

void Tracking::finish(int exit_code) {
  if (!mlflow_) return;
  const auto status = status_of(exit_code);
  if (status == RunStatus::failed) {
    if (has_restarts_left_) return mlflow_.reset();
    // The launcher stops all workers when one has failed. This one ends soon without that.
    std::signal(SIGTERM, SIG_IGN);
  }
  mlflow_->finish(
      status, status == RunStatus::finished ? kFinishTime : kFailureTime,
      has_checkpoints_ ? "; a training that resumes from the checkpoint sends them" : "");
}

}  // namespace trainer
