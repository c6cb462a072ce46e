#include "trainers/tracking/options.hpp"

#include "trainers/frame/command_line.hpp"
#include "trainers/tracking/mlflow_messages.hpp"
#include <ddprun/error.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>

namespace trainer {

namespace {

constexpr std::int64_t kStepsMax = 1'000'000'000;
constexpr const char* kOff = "none";

}  // namespace

void add_tracking_options(CLI::App& app, TrackingOptions& options) {
  app.add_option("--mlflow", options.mlflow,
                 "log parameters and metrics to this MLflow server, http://HOST:PORT (default: "
                 "MLFLOW_TRACKING_URI; none: to no server)")
      ->type_name("URI");
  app.add_option("--tensorboard", options.tensorboard, "write metrics here for TensorBoard")
      ->type_name("DIR");
  app.add_option("--track_every", options.track_every,
                 "steps between points of single steps in MLflow and TensorBoard (0: none)")
      ->check(whole(0, kStepsMax))
      ->capture_default_str();
}

void complete(TrackingOptions& options, const CLI::App& app,
              const ddprun::EnvironmentLookup& lookup) {
  const auto variable = [&](const std::string& name) {
    const std::string value = lookup(name).value_or("");
    const bool is_printable = std::none_of(value.begin(), value.end(),
                                           [](unsigned char c) { return c < ' ' || c == 127; });
    if (is_printable) return value;
    throw ddprun::Error(ddprun::Errc::usage,
                        name + ": has a control character; remove it (a newline at the end?)");
  };
  const bool is_given = !options.mlflow.empty();
  const std::string uri = is_given ? options.mlflow : variable("MLFLOW_TRACKING_URI");
  if (!uri.empty() && uri != kOff) {
    options.server = parse_server_address(
        uri, is_given ? "--mlflow" : "MLFLOW_TRACKING_URI (--mlflow none ignores it)");
    options.experiment = variable("MLFLOW_EXPERIMENT_NAME");
    options.authorization =
        authorization_of(variable("MLFLOW_TRACKING_USERNAME"), variable("MLFLOW_TRACKING_PASSWORD"),
                         variable("MLFLOW_TRACKING_TOKEN"));
    options.user = variable("USER");
  }
  if (app.count("--track_every") > 0 && !options.server && options.tensorboard.empty()) {
    throw ddprun::Error(ddprun::Errc::usage, "--track_every needs --mlflow or --tensorboard");
  }
}

std::optional<std::string> look_up_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace trainer
