// From a training to its run on an MLflow server: the experiment, the run that an earlier life of
// the training has made or a new one, its parameters and tags. Pure: the caller sends each request
// and hands the answer in.
#pragma once

#include "trainers/tracking/mlflow_messages.hpp"

#include <cstdint>
#include <string>

namespace trainer {

/// Tags by which a run is found again.
inline constexpr const char* kTrackingIdTag = "ddprun.tracking_id";
inline constexpr const char* kRunIdTag = "ddprun.run_id";

struct RunDescription {
  std::string experiment;   ///< its name; empty: the server's default one
  std::string tracking_id;  ///< of the training, also of those that it resumes
  std::string run_id;       ///< of ddprun, and the name of a new run; empty: there is none
  bool is_restart = false;  ///< attempts of the same run of ddprun came before
  std::int64_t start_milliseconds = 0;
  Texts parameters;
  Texts tags;  ///< besides those two
};

class MlflowSetup {
 public:
  explicit MlflowSetup(RunDescription description);

  bool is_ready() const { return stage_ == Stage::ready; }

  /// What to send next. Not to be called when ready.
  HttpRequest request() const;

  /// Returns why the same request has to be sent again later; empty: go on. What the training can
  /// do without, such as parameters that are refused, is no reason.
  std::string take(const ServerAnswer& answer);

  /// MLflow's id of the run, once ready.
  const std::string& mlflow_run() const { return mlflow_run_; }
  /// That of the description, or of the run that was found.
  const std::string& tracking_id() const { return description_.tracking_id; }
  /// Of a run that was found: what it has already.
  const LastSteps& last_steps() const { return last_steps_; }

 private:
  enum class Stage {
    find_experiment,
    create_experiment,
    find_own,      ///< by the tracking id
    find_earlier,  ///< by the run id of ddprun, of an attempt that left no checkpoint
    create,
    reopen,
    describe,
    ready
  };
  Texts own_tags() const;
  std::string take_experiment(const ServerAnswer& answer);
  std::string take_found(const ServerAnswer& answer);
  std::string take_created(const ServerAnswer& answer);
  void continue_run(const nlohmann::json& run);

  RunDescription description_;
  Stage stage_;
  std::string experiment_id_ = "0";  ///< that of the default one
  std::string mlflow_run_;
  LastSteps last_steps_;
};

}  // namespace trainer
