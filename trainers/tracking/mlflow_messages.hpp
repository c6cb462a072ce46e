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

/// The server's limit of metrics per request.
inline constexpr std::size_t kMetricsMax = 1000;
/// The server's limit of parameters, and of tags, per request.
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
  std::string error_code;  ///< MLflow's code of a refusal; otherwise empty
  std::string problem;     ///< one line; empty if accepted
};

/// Decodes an answer. An error in another format than MLflow's counts as unavailable, since a proxy
/// may send it while the server restarts. 401 and 403 count as denied in any format.
ServerAnswer read_answer(const HttpAnswer& answer);

using Texts = std::map<std::string, std::string>;

HttpRequest get_experiment(const std::string& name);
HttpRequest create_experiment(const std::string& name);

/// Returns false if the value is empty or MLflow's filter language, which has no escapes, cannot
/// express it.
bool is_searchable(const std::string& value);

/// Searches for the newest run of the experiment in which the tag has this value. REQUIRES:
/// is_searchable() of the value.
HttpRequest find_run(const std::string& experiment_id, const std::string& tag,
                     const std::string& value, bool is_unfinished_only);
HttpRequest create_run(const std::string& experiment_id, const std::string& name,
                       std::int64_t start_milliseconds, const Texts& tags);

/// Omits points beyond kMetricsMax.
HttpRequest log_points(const std::string& mlflow_run, std::span<const Point> points);
/// Omits parameters and tags beyond kTextsMax of each.
HttpRequest log_texts(const std::string& mlflow_run, const Texts& parameters, const Texts& tags);
/// `end_milliseconds` is ignored for a running run.
HttpRequest update_run(const std::string& mlflow_run, RunStatus status,
                       std::int64_t end_milliseconds);

/// Returns the value of the Authorization header, or an empty text if neither a user and a password
/// nor a token is given. A user overrides a token, as in MLflow's client.
std::string authorization_of(const std::string& user, const std::string& password,
                             const std::string& token);

}  // namespace trainer
