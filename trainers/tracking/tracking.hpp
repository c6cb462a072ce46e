// Reports a training to an MLflow server and to TensorBoard, on rank 0. All functions do nothing
// before start(), and if neither is wanted. For one thread.
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

/// Limit for sending the rest to the server when a training has succeeded.
inline constexpr std::chrono::seconds kFinishTime{10};
/// The same when it has failed or was stopped.
inline constexpr std::chrono::seconds kFailureTime{1};

struct TrackedRun {
  std::string program;
  const ddprun::WorkerEnv& env;
  const nlohmann::json& settings;  ///< an object; values are numbers, texts or booleans
  std::string checkpoint_dir;      ///< empty: none
  std::int64_t step = 0;           ///< last step in the checkpoint; 0: none
  /// The checkpoint that the training resumes from.
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
  /// finite are left out. If TensorBoard's file cannot be written, logs a warning once and writes
  /// no more events.
  void log_step(std::int64_t step, std::initializer_list<Scalar> scalars);
  /// The same for values of an epoch or a test, at every step.
  void log(std::int64_t step, std::initializer_list<Scalar> scalars);

  /// Puts in what a resumed training needs to continue the same run and to send what is not sent
  /// yet.
  void save(ddprun::Checkpoint& checkpoint) const;

  /// Sends the rest and the status to the server. `exit_code`: of this worker. Waits at most
  /// kFinishTime or kFailureTime, and not at all before a restart, which continues the run.
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
