// Reports a training to an MLflow server and to TensorBoard, on rank 0. Functions do nothing before
// start() or if neither is requested. For one thread.
#pragma once

#include "trainers/tracking/backlog.hpp"
#include "trainers/tracking/event_encoding.hpp"
#include "trainers/tracking/options.hpp"
#include <ddprun/checkpoint.hpp>
#include <ddprun/error.hpp>
#include <ddprun/log.hpp>
#include <ddprun/worker_env.hpp>

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace trainer {

class EventFile;
class MlflowSender;

/// Time limit for sending the remaining data to the server after a successful training.
inline constexpr std::chrono::seconds kFinishTime{10};
/// Time limit after a failed or stopped training.
inline constexpr std::chrono::seconds kFailureTime{1};

struct TrackedRun {
  std::string program;
  const ddprun::WorkerEnv& env;
  const nlohmann::json& settings;  ///< an object of numbers, texts and booleans
  std::string checkpoint_dir;      ///< empty: none
  std::int64_t step = 0;           ///< last step in the checkpoint; 0: none
  /// Checkpoint that the training resumes from.
  const std::optional<ddprun::Checkpoint>& checkpoint;
};

class Tracking {
 public:
  explicit Tracking(ddprun::Log log);
  Tracking(const Tracking&) = delete;
  Tracking& operator=(const Tracking&) = delete;
  ~Tracking();

  /// Must be called on rank 0, once. Throws Error{Errc::usage} if a file for TensorBoard cannot be
  /// created. Logs a warning if the server cannot be reached.
  void start(const TrackingOptions& options, const TrackedRun& run);

  /// Reports values of a single step, if it is a multiple of --track_every. Values that are not
  /// finite are omitted. If TensorBoard's file cannot be written, logs a warning once and writes
  /// no more events.
  void log_step(std::int64_t step, std::initializer_list<Scalar> scalars);
  /// Like log_step(), for values of an epoch or a test, at every step.
  void log(std::int64_t step, std::initializer_list<Scalar> scalars);

  /// Adds the state with which a resumed training continues the same run and sends the unsent
  /// points.
  void save(ddprun::Checkpoint& checkpoint) const;

  /// Sends the remaining data and the status to the server. `exit_code`: this worker's. Waits at
  /// most kFinishTime or kFailureTime, and not at all before a restart, which continues the run.
  void finish(int exit_code);

 private:
  void log(Backlog::Kind kind, std::int64_t step, std::initializer_list<Scalar> scalars);
  void start_events(const TrackingOptions& options, const TrackedRun& run);
  void write_events(std::int64_t step, std::span<const Scalar> scalars);
  /// Logs a warning.
  void stop_events(const ddprun::Error& error);
  void start_mlflow(const TrackingOptions& options, const TrackedRun& run);

  const ddprun::Log log_;
  std::int64_t track_every_ = 0;
  bool has_restarts_left_ = false;
  bool has_checkpoints_ = false;
  std::unique_ptr<EventFile> events_;
  std::unique_ptr<MlflowSender> mlflow_;
};

}  // namespace trainer
