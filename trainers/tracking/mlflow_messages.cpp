#include "trainers/tracking/mlflow_messages.hpp"

#include <algorithm>
#include <cstdio>

namespace trainer {

namespace {

using Json = nlohmann::json;

/// Limit for a part of an answer that is quoted in a message: about a line of a terminal.
constexpr std::size_t kQuotedMax = 200;

/// Replaces bytes that are not UTF-8, as in the name of a folder.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

HttpRequest post(const std::string& method, const Json& body) {
  return {.is_post = true, .path = "/api/2.0/mlflow/" + method, .body = dump(body)};
}

std::string percent_encoded(const std::string& text) {
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.' || c == '~') {
      encoded += c;
    } else {
      char digits[4];
      std::snprintf(digits, sizeof digits, "%%%02X", byte);
      encoded += digits;
    }
  }
  return encoded;
}

Json key_values(const Texts& texts) {
  auto list = Json::array();
  for (const auto& [key, value] : texts) {
    if (list.size() == kTextsMax) break;
    list.push_back({{"key", key}, {"value", value}});
  }
  return list;
}

const char* name_of(RunStatus status) {
  switch (status) {
    case RunStatus::running:
      return "RUNNING";
    case RunStatus::finished:
      return "FINISHED";
    case RunStatus::failed:
      return "FAILED";
    case RunStatus::killed:
      return "KILLED";
  }
  return "FAILED";
}

std::string base64(const std::string& bytes) {
  static constexpr char kDigits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = i; j < i + 3; ++j) {
      group = group << 8 | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      text += i + j > bytes.size() ? '=' : kDigits[group >> (18 - 6 * j) & 63];
    }
  }
  return text;
}

/// Returns the beginning of the text in one line, without control characters.
std::string quoted(const std::string& text) {
  std::string line = text.substr(0, kQuotedMax);
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
  return line;
}

/// Describes an answer that is not MLflow's, as of a proxy or of a server of another kind.
std::string of_other_server(const std::string& text) {
  const bool is_page = text.find_first_not_of(" \r\n") == text.find('<');
  return text.empty() || is_page ? ", not by MLflow" : ": " + quoted(text);
}

/// Returns the quote in which a filter can contain the value; 0: neither. A backslash before the
/// closing quote would escape it.
char quote_for(const std::string& value) {
  if (value.ends_with('\\')) return 0;
  if (value.find('\'') == std::string::npos) return '\'';
  return value.find('"') == std::string::npos ? '"' : '\0';
}

Verdict verdict_of(unsigned status, bool is_accepted, bool is_error) {
  if (is_accepted) return Verdict::accepted;
  if (status == 401 || status == 403) return Verdict::denied;
  const bool is_permanent = status >= 400 && status < 500 && status != 408 && status != 429;
  return is_error && is_permanent ? Verdict::refused : Verdict::unavailable;
}

}  // namespace

ServerAnswer read_answer(const HttpAnswer& answer) {
  ServerAnswer read;
  if (answer.status == 0) {
    read.problem = answer.text;
    return read;
  }
  auto json = Json::parse(answer.text, nullptr, false);
  const bool is_error = json.is_object() && json.contains("error_code");
  const auto field = [&](const char* name) {
    const auto found = json.find(name);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  read.verdict = verdict_of(answer.status, answer.status == 200 && json.is_object(), is_error);
  if (read.verdict == Verdict::accepted) {
    read.json = std::move(json);
    return read;
  }
  if (read.verdict == Verdict::refused) read.error_code = field("error_code");
  read.problem = "HTTP status " + std::to_string(answer.status) +
                 (is_error ? ": " + quoted(field("message")) : of_other_server(answer.text));
  return read;
}

HttpRequest get_experiment(const std::string& name) {
  return {
      .is_post = false,
      .path = "/api/2.0/mlflow/experiments/get-by-name?experiment_name=" + percent_encoded(name),
      .body = ""};
}

HttpRequest create_experiment(const std::string& name) {
  return post("experiments/create", {{"name", name}});
}

bool is_searchable(const std::string& value) {
  return !value.empty() && quote_for(value) != 0;
}

HttpRequest find_run(const std::string& experiment_id, const std::string& tag,
                     const std::string& value, bool is_unfinished_only) {
  const char quote = quote_for(value);
  std::string filter = "tags.`" + tag + "` = " + quote + value + quote;
  if (is_unfinished_only) filter += " and attributes.status != 'FINISHED'";
  return post("runs/search", {{"experiment_ids", {experiment_id}},
                              {"filter", filter},
                              {"max_results", 1},
                              {"order_by", {"attributes.start_time DESC"}}});
}

HttpRequest create_run(const std::string& experiment_id, const std::string& name,
                       std::int64_t start_milliseconds, const Texts& tags) {
  return post("runs/create", {{"experiment_id", experiment_id},
                              {"run_name", name},
                              {"start_time", start_milliseconds},
                              {"tags", key_values(tags)}});
}

HttpRequest log_points(const std::string& mlflow_run, std::span<const Point> points) {
  auto metrics = Json::array();
  for (const Point& point : points.first(std::min(points.size(), kMetricsMax))) {
    metrics.push_back({{"key", point.name},
                       {"value", point.value},
                       {"timestamp", point.milliseconds},
                       {"step", point.step}});
  }
  return post("runs/log-batch", {{"run_id", mlflow_run}, {"metrics", metrics}});
}

HttpRequest log_texts(const std::string& mlflow_run, const Texts& parameters, const Texts& tags) {
  return post(
      "runs/log-batch",
      {{"run_id", mlflow_run}, {"params", key_values(parameters)}, {"tags", key_values(tags)}});
}

HttpRequest update_run(const std::string& mlflow_run, RunStatus status,
                       std::int64_t end_milliseconds) {
  Json body = {{"run_id", mlflow_run}, {"status", name_of(status)}};
  if (status != RunStatus::running) body["end_time"] = end_milliseconds;
  return post("runs/update", body);
}

std::string authorization_of(const std::string& user, const std::string& password,
                             const std::string& token) {
  if (!user.empty() && !password.empty()) return "Basic " + base64(user + ":" + password);
  return token.empty() ? "" : "Bearer " + token;
}

}  // namespace trainer
