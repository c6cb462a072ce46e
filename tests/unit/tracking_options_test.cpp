#include "trainers/tracking/options.hpp"
#include <ddprun/error.hpp>

#include <CLI/CLI.hpp>
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

namespace tracking_options_test {

using trainer::TrackingOptions;
using Environment = std::map<std::string, std::string>;

namespace {

TrackingOptions parse(std::vector<std::string> arguments, const Environment& environment) {
  CLI::App app;
  TrackingOptions options;
  trainer::add_tracking_options(app, options);
  app.parse(arguments);
  trainer::complete(options, app, [&](const std::string& name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  });
  return options;
}

std::string refusal(const std::vector<std::string>& arguments, const Environment& environment) {
  try {
    parse(arguments, environment);
    return "";
  } catch (const ddprun::Error& error) {
    CHECK(error.code() == ddprun::Errc::usage);
    return error.what();
  }
}

}  // namespace

TEST_SUITE("tracking options") {
  TEST_CASE("tracking options: --mlflow overrides MLFLOW_TRACKING_URI") {
    const Environment set = {{"MLFLOW_TRACKING_URI", "http://variable"},
                             {"MLFLOW_EXPERIMENT_NAME", "e"},
                             {"MLFLOW_TRACKING_TOKEN", "t"}};
    CHECK_FALSE(parse({}, {}).server.has_value());
    CHECK_FALSE(parse({}, {{"MLFLOW_TRACKING_URI", ""}}).server.has_value());
    CHECK(parse({}, set).server->host == "variable");
    CHECK(parse({"--mlflow=http://option"}, set).server->host == "option");
    CHECK(parse({}, set).experiment == "e");
    CHECK(parse({}, set).authorization == "Bearer t");
    CHECK_FALSE(parse({"--mlflow=none"}, set).server.has_value());
  }

  TEST_CASE("tracking options: an invalid address or variable is rejected by name") {
    CHECK(refusal({"--mlflow=https://a"}, {}).starts_with("--mlflow: "));
    CHECK(refusal({}, {{"MLFLOW_TRACKING_URI", "sqlite:///a"}})
              .starts_with("MLFLOW_TRACKING_URI (--mlflow none ignores it): "));
    CHECK(refusal({"--mlflow=http://a"}, {{"MLFLOW_TRACKING_TOKEN", "t\n"}})
              .starts_with("MLFLOW_TRACKING_TOKEN: has a control character"));
    CHECK(refusal({"--track_every=5"}, {}) == "--track_every needs --mlflow or --tensorboard");
    CHECK(parse({"--track_every=5", "--tensorboard=x"}, {}).track_every == 5);
  }
}

}  // namespace tracking_options_test
