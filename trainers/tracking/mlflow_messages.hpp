// MLflow's REST API 2.0: the requests that a training sends, and what an answer means. Pure.
#pragma once

#include "trainers/tracking/backlog.hpp"
#include "trainers/tracking/http_client.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace trainer {

/// In one request: as many as the server accepts.
inline constexpr std::size_t kMetricsMax = 1000;
/// Parameters, and tags, in one request.
inline constexpr std::size_t kTextsMax = 100;

enum class RunStatus { running, finished, failed, killed };

enum class Verdict {
  accepted,
  refused,      ///< by MLflow: the same request would be refused again
  unavailable,  ///< there is no MLflow now, or it cannot serve: later perhaps
};

struct ServerAnswer {
  Verdict verdict = Verdict::unavailable;
  nlohmann::json json;     ///< an object unless unavailable
  std::string error_code;  ///< MLflow's, of a refusal
  std::string problem;     ///< one line, of a refusal or an unavailable server
};

/// A status that says "not now" or "not you", or a text that is not MLflow's, is unavailable: in
/// front of servers stand proxies.
ServerAnswer read_answer(const HttpAnswer& answer);

using Texts = std::map<std::string, std::string>;

HttpRequest get_experiment(const std::string& name);
HttpRequest create_experiment(const std::string& name);

/// The newest run of the experiment in which the tag has this value.
HttpRequest find_run(const std::string& experiment_id, const std::string& tag,
                     const std::string& value, bool is_unfinished_only);
HttpRequest create_run(const std::string& experiment_id, const std::string& name,
                       std::int64_t start_milliseconds, const Texts& tags);

/// At most kMetricsMax points.
HttpRequest log_points(const std::string& mlflow_run, std::span<const Point> points);
/// At most kTextsMax of each; those beyond are left out.
HttpRequest log_texts(const std::string& mlflow_run, const Texts& parameters, const Texts& tags);
/// `end_milliseconds` is ignored for a running run.
HttpRequest update_run(const std::string& mlflow_run, RunStatus status,
                       std::int64_t end_milliseconds);

/// "Basic ..." or "Bearer ..."; empty without a user and a token. A user counts before a token, as
/// in MLflow's client.
std::string authorization_of(const std::string& user, const std::string& password,
                             const std::string& token);

}  // namespace trainer
