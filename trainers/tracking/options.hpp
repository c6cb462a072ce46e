// Tracking options that the trainers share, and the variables of MLflow's client.
#pragma once

#include "trainers/tracking/server_address.hpp"
#include <ddprun/worker_env.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace trainer {

struct TrackingOptions {
  std::string mlflow;                   ///< option as given; empty: MLFLOW_TRACKING_URI
  std::string tensorboard;              ///< folder; empty: none
  std::int64_t track_every = 0;         ///< steps between points of single steps; 0: none
  std::optional<ServerAddress> server;  ///< MLflow's server, after complete(); nullopt: none
  std::string experiment;
  std::string authorization;
  std::string user;
};

/// Adds the options. The default of --track_every is `options.track_every`.
void add_tracking_options(CLI::App& app, TrackingOptions& options);

/// Must be called after parsing. Sets missing options from MLFLOW_TRACKING_URI,
/// MLFLOW_EXPERIMENT_NAME, MLFLOW_TRACKING_USERNAME and _PASSWORD, or _TOKEN. Throws
/// Error{Errc::usage}.
void complete(TrackingOptions& options, const CLI::App& app,
              const ddprun::EnvironmentLookup& lookup);

/// Looks up a variable of this process' environment.
std::optional<std::string> look_up_variable(const std::string& name);

}  // namespace trainer
