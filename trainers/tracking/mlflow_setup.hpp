// Finds or creates a training's run on an MLflow server: the experiment, then the run that an
// earlier attempt has created or a new one, then its parameters and tags. Pure: the caller sends
// the requests and passes the answers to this object.
#pragma once

#include "trainers/tracking/mlflow_messages.hpp"

#include <cstdint>
#include <string>

namespace trainer {

/// Tags that identify a run in searches.
inline constexpr const char* kTrackingIdTag = "ddprun.tracking_id";
inline constexpr const char* kRunIdTag = "ddprun.run_id";

struct RunDescription {
  std::string experiment;   ///< name of the experiment; empty: the server's default one
  std::string tracking_id;  ///< shared by a training and those that resume it
  std::string run_id;       ///< ddprun's run ID, and the name of a new run; empty: none
  bool is_restart = false;  ///< not the first attempt of the run of ddprun
  bool has_run = false;     ///< an earlier training has a run with the tracking id
  std::int64_t start_milliseconds = 0;
  Texts parameters;
  Texts tags;  ///< tags in addition to the two above
};

class MlflowSetup {
 public:
  explicit MlflowSetup(RunDescription description);

  bool is_ready() const { return stage_ == Stage::ready; }
  /// Returns true if the server denies access or refuses to create the experiment or the run.
  bool is_refused() const { return stage_ == Stage::refused; }

  /// Returns the next request. REQUIRES: not ready or refused.
  HttpRequest request() const;

  /// Processes the answer to request(). Returns the problem if the server is unavailable, and the
  /// same request must be sent again later, or if is_refused(). Otherwise returns an empty text,
  /// also if the server refuses parameters and tags.
  std::string take(const ServerAnswer& answer);

  /// Returns MLflow's ID of the run. REQUIRES: ready.
  const std::string& mlflow_run() const { return mlflow_run_; }
  /// Returns true if the run of an earlier training was not found and mlflow_run() is a new one.
  bool lacks_earlier_run() const { return is_new_ && description_.has_run; }
  /// Returns the tracking ID of the run that was found, or of the description.
  const std::string& tracking_id() const { return description_.tracking_id; }
  /// Returns the last steps of a run that was found; otherwise empty.
  const LastSteps& last_steps() const { return last_steps_; }

 private:
  enum class Stage {
    find_experiment,
    create_experiment,
    find_own,      ///< by the tracking id
    find_earlier,  ///< by the run id of ddprun, for a restart without a checkpoint
    create,
    reopen,
    describe,
    ready,
    refused
  };
  Stage first_search() const;
  Stage after_own() const;
  Texts own_tags() const;
  std::string refuse(const ServerAnswer& answer);
  std::string handle_experiment_response(const ServerAnswer& answer);
  std::string handle_search_response(const ServerAnswer& answer);
  std::string handle_create_response(const ServerAnswer& answer);
  void continue_run(const nlohmann::json& run);

  RunDescription description_;
  Stage stage_;
  std::string experiment_id_ = "0";  ///< the default experiment
  std::string mlflow_run_;
  bool is_new_ = false;
  LastSteps last_steps_;
};

}  // namespace trainer
