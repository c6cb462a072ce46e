// What a training reports to an MLflow server and to TensorBoard, on rank 0. Until start() has been
// called, and where neither is wanted, everything does nothing. For one thread.
#pragma once

#include "trainers/tracking/backlog.hpp"
#include "trainers/tracking/event_encoding.hpp"
#include "trainers/tracking/options.hpp"
#include <ddprun/checkpoint.hpp>
#include <ddprun/log.hpp>
#include <ddprun/worker_env.hpp>

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>

namespace trainer {

class EventFile;
class MlflowSender;

/// How long the end of a training waits for the server: of one that is complete, and of another.
inline constexpr std::chrono::seconds kFinishTime{10};
inline constexpr std::chrono::seconds kFailureTime{1};

struct TrackedRun {
  std::string program;
  const ddprun::WorkerEnv& env;
  const nlohmann::json& settings;  ///< an object; values are numbers, texts or booleans
  std::string checkpoint_dir;      ///< empty: none
  std::int64_t step = 0;           ///< of the checkpoint that it resumes from
  /// That checkpoint, if there is one.
  const std::optional<ddprun::Checkpoint>& checkpoint;
};

class Tracking {
 public:
  explicit Tracking(ddprun::Log log);
  Tracking(const Tracking&) = delete;
  Tracking& operator=(const Tracking&) = delete;
  ~Tracking();

  /// To be called on rank 0, once. Throws Error{Errc::usage} if the folder for TensorBoard cannot
  /// be written; a server that cannot be reached is no error.
  void start(const TrackingOptions& options, const TrackedRun& run);

  /// Of a single step: kept every --track_every steps. Throws Error{Errc::system} if TensorBoard's
  /// file cannot be written, as log() does.
  void log_step(std::int64_t step, std::initializer_list<Scalar> scalars);
  /// Of an epoch or a test.
  void log(std::int64_t step, std::initializer_list<Scalar> scalars);

  /// Puts in what a later life needs to go on with the same run and to send what is not sent yet.
  void save(ddprun::Checkpoint& checkpoint) const;

  /// Sends the rest to the server and how the training has ended: the exit code of its worker.
  /// Waits at most kFinishTime or kFailureTime, and not at all if the failure will be followed by a
  /// restart: that goes on with the run.
  void finish(int exit_code);

 private:
  void log(Backlog::Kind kind, std::int64_t step, std::initializer_list<Scalar> scalars);
  void start_mlflow(const TrackingOptions& options, const TrackedRun& run);

  const ddprun::Log log_;
  std::int64_t track_every_ = 0;
  bool has_restarts_left_ = false;
  std::string server_;  ///< and the experiment there, as checkpoints name them
  std::string experiment_;
  std::unique_ptr<EventFile> events_;
  std::unique_ptr<MlflowSender> mlflow_;
};

}  // namespace trainer
