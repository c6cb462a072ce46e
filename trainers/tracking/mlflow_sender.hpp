// Sends what a training logs to an MLflow server, from a thread of its own: the training neither
// waits for the server nor ends with it. What the server has not accepted is kept, within bounds,
// and sent when it answers again.
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

/// Between two looks at what there is to send, and the longest between two attempts to reach a
/// server that does not answer.
inline constexpr std::chrono::seconds kSendInterval{1};
inline constexpr std::chrono::seconds kRetryIntervalMax{5};
/// Of one request, with its answer.
inline constexpr std::chrono::seconds kRequestTimeout{5};

/// For one thread.
class MlflowSender {
 public:
  /// `authorization` is the header's value; `backlog` is what an earlier life has not sent. `log`
  /// is called on either thread.
  MlflowSender(ServerAddress server, const std::string& authorization, RunDescription description,
               Backlog backlog, ddprun::Log log);
  MlflowSender(const MlflowSender&) = delete;
  MlflowSender& operator=(const MlflowSender&) = delete;
  /// Without finish() what is not sent yet is lost, and the run stays as it is.
  ~MlflowSender();

  void push(Backlog::Kind kind, Point point);

  /// For a checkpoint: {"tracking_id", "points"}.
  nlohmann::json state() const;

  /// Sends the rest and the status within `limit`; a warning tells what was not sent. To be called
  /// once.
  void finish(RunStatus status, std::chrono::milliseconds limit);

 private:
  struct Shared;
  struct Left;
  Left stop(RunStatus status, std::chrono::milliseconds limit);

  class Conversation;

  const std::string name_;
  const ddprun::Log log_;
  const std::shared_ptr<Shared> shared_;
  std::thread thread_;
};

}  // namespace trainer
