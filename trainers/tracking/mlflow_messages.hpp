// Encodes the requests of MLflow's REST API 2.0 and decodes the answers. Pure.
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

/// Limit of the server, per request.
inline constexpr std::size_t kMetricsMax = 1000;
/// Limit of the server for parameters, and for tags, per request.
inline constexpr std::size_t kTextsMax = 100;

enum class RunStatus { running, finished, failed, killed };

enum class Verdict {
  accepted,
  refused,      ///< the same request would be refused again
  denied,       ///< all requests with these credentials would be refused
  unavailable,  ///< MLflow cannot be reached or cannot serve now
};

struct ServerAnswer {
  Verdict verdict = Verdict::unavailable;
  nlohmann::json json;     ///< an object if accepted
  std::string error_code;  ///< MLflow's code of a refusal; else empty
  std::string problem;     ///< one line; empty if accepted
};

/// Decodes an answer. An error that is not in MLflow's format means unavailable: it may come from a
/// proxy while the server restarts. 401 and 403 mean denied in any format.
ServerAnswer read_answer(const HttpAnswer& answer);

using Texts = std::map<std::string, std::string>;

HttpRequest get_experiment(const std::string& name);
HttpRequest create_experiment(const std::string& name);

/// False if MLflow's filter language, which has no escapes, cannot express the value, or if it is
/// empty.
bool is_searchable(const std::string& value);

/// Searches for the newest run of the experiment in which the tag has this value, which must be
/// searchable.
HttpRequest find_run(const std::string& experiment_id, const std::string& tag,
                     const std::string& value, bool is_unfinished_only);
HttpRequest create_run(const std::string& experiment_id, const std::string& name,
                       std::int64_t start_milliseconds, const Texts& tags);

/// `points`: at most kMetricsMax; more are left out.
HttpRequest log_points(const std::string& mlflow_run, std::span<const Point> points);
/// At most kTextsMax of each; more are left out.
HttpRequest log_texts(const std::string& mlflow_run, const Texts& parameters, const Texts& tags);
/// `end_milliseconds` is ignored for a running run.
HttpRequest update_run(const std::string& mlflow_run, RunStatus status,
                       std::int64_t end_milliseconds);

/// Returns the value of the Authorization header, or an empty text if neither a user and a password
/// nor a token is given. A user overrides a token, as in MLflow's client.
std::string authorization_of(const std::string& user, const std::string& password,
                             const std::string& token);

}  // namespace trainer
