// Sends the logged data of a training to an MLflow server on a separate thread, so that the
// training never waits for the server. Keeps data that the server has not accepted, within bounds,
// and sends it when the server responds again.
#pragma once

#include "trainers/tracking/mlflow_setup.hpp"
#include "trainers/tracking/server_address.hpp"
#include <ddprun/log.hpp>

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

namespace trainer {

/// Interval between two batches of points.
inline constexpr std::chrono::seconds kSendInterval{1};
/// Maximum interval between two attempts to reach a server that does not respond.
inline constexpr std::chrono::seconds kRetryIntervalMax{5};
/// Time limit of a request and its answer.
inline constexpr std::chrono::seconds kRequestTimeout{5};

/// For one thread.
class MlflowSender {
 public:
  /// `authorization`: the header's value, or empty. `backlog`: points that an earlier attempt has
  /// not sent. `log`: called by both threads, but not after finish() or destruction.
  MlflowSender(ServerAddress server, const std::string& authorization, RunDescription description,
               Backlog backlog, ddprun::Log log);
  MlflowSender(const MlflowSender&) = delete;
  MlflowSender& operator=(const MlflowSender&) = delete;
  /// Without finish(), discards unsent data and leaves the status of the run unchanged.
  ~MlflowSender();

  void push(Backlog::Kind kind, Point point);

  /// Returns the state for a checkpoint: {"tracking_id", "has_run", "points"}.
  nlohmann::json state() const;

  /// Sends the remaining data and the status within `limit`. Warns of unsent data; the warning ends
  /// with `remedy`. Must be called at most once.
  void finish(RunStatus status, std::chrono::milliseconds limit, const std::string& remedy = "");

 private:
  struct Shared;
  struct Left;
  Left stop(RunStatus status, std::chrono::milliseconds limit);

  class SenderLoop;

  const std::string name_;
  const ddprun::Log log_;
  const std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace trainer
