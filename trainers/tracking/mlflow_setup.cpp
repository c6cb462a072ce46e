#include "trainers/tracking/mlflow_setup.hpp"

#include <utility>

namespace trainer {

namespace {

using Json = nlohmann::json;

constexpr const char* kUnreadable = "its answer is not that of an MLflow server";

/// Returns null if there is no such member.
Json child(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found == json.end() ? Json() : *found;
}

std::string text(const Json& json, const char* name) {
  const auto found = child(json, name);
  return found.is_string() ? found.get<std::string>() : std::string();
}

/// Decodes a list of {key, value}.
Texts key_values_of(const Json& list) {
  Texts texts;
  for (const auto& one : list) texts[text(one, "key")] = text(one, "value");
  return texts;
}

}  // namespace

MlflowSetup::MlflowSetup(RunDescription description)
    : description_(std::move(description)),
      stage_(description_.experiment.empty() ? first_search() : Stage::find_experiment) {}

MlflowSetup::Stage MlflowSetup::first_search() const {
  return is_searchable(description_.tracking_id) ? Stage::find_own : after_own();
}

MlflowSetup::Stage MlflowSetup::after_own() const {
  const bool has_earlier = description_.is_restart && is_searchable(description_.run_id);
  return has_earlier ? Stage::find_earlier : Stage::create;
}

HttpRequest MlflowSetup::request() const {
  switch (stage_) {
    case Stage::find_experiment:
      return get_experiment(description_.experiment);
    case Stage::create_experiment:
      return trainer::create_experiment(description_.experiment);
    case Stage::find_own:
      return find_run(experiment_id_, kTrackingIdTag, description_.tracking_id, false);
    case Stage::find_earlier:
      return find_run(experiment_id_, kRunIdTag, description_.run_id, true);
    case Stage::create:
      return create_run(experiment_id_, description_.run_id, description_.start_milliseconds,
                        own_tags());
    case Stage::reopen:
      return update_run(mlflow_run_, RunStatus::running, 0);
    case Stage::describe:
    case Stage::ready:
    case Stage::refused:
      break;
  }
  return log_texts(mlflow_run_, description_.parameters, description_.tags);
}

Texts MlflowSetup::own_tags() const {
  Texts tags = {{kTrackingIdTag, description_.tracking_id}};
  if (!description_.run_id.empty()) tags[kRunIdTag] = description_.run_id;
  return tags;
}

std::string MlflowSetup::take(const ServerAnswer& answer) {
  if (answer.verdict == Verdict::unavailable) return answer.problem;
  if (answer.verdict == Verdict::denied) return refuse(answer);
  switch (stage_) {
    case Stage::find_experiment:
    case Stage::create_experiment:
      return handle_experiment_response(answer);
    case Stage::find_own:
    case Stage::find_earlier:
      return handle_search_response(answer);
    case Stage::create:
      return handle_create_response(answer);
    case Stage::reopen:
      stage_ = Stage::describe;
      break;
    case Stage::describe:
      stage_ = Stage::ready;
      break;
    case Stage::ready:
    case Stage::refused:
      break;
  }
  return "";
}

std::string MlflowSetup::refuse(const ServerAnswer& answer) {
  stage_ = Stage::refused;
  return answer.problem;
}

std::string MlflowSetup::handle_experiment_response(const ServerAnswer& answer) {
  const bool is_new = stage_ == Stage::create_experiment;
  if (answer.verdict == Verdict::refused) {
    const bool is_absent = !is_new && answer.error_code == "RESOURCE_DOES_NOT_EXIST";
    // Another training has created it in the meantime.
    const bool is_there = is_new && answer.error_code == "RESOURCE_ALREADY_EXISTS";
    if (!is_absent && !is_there) return refuse(answer);
    stage_ = is_absent ? Stage::create_experiment : Stage::find_experiment;
    return "";
  }
  const auto id = text(is_new ? answer.json : child(answer.json, "experiment"), "experiment_id");
  if (id.empty()) return kUnreadable;
  experiment_id_ = id;
  stage_ = first_search();
  return "";
}

std::string MlflowSetup::handle_search_response(const ServerAnswer& answer) {
  if (answer.verdict == Verdict::refused) {
    stage_ = Stage::create;
    return "";
  }
  const auto runs = child(answer.json, "runs");
  if (!runs.is_array() || runs.empty()) {
    stage_ = stage_ == Stage::find_own ? after_own() : Stage::create;
    return "";
  }
  mlflow_run_ = text(child(runs[0], "info"), "run_id");
  if (mlflow_run_.empty()) return kUnreadable;
  continue_run(runs[0]);
  stage_ = Stage::reopen;
  return "";
}

std::string MlflowSetup::handle_create_response(const ServerAnswer& answer) {
  if (answer.verdict == Verdict::refused) return refuse(answer);
  mlflow_run_ = text(child(child(answer.json, "run"), "info"), "run_id");
  if (mlflow_run_.empty()) return kUnreadable;
  is_new_ = true;
  stage_ = Stage::describe;
  return "";
}

void MlflowSetup::continue_run(const Json& run) {
  const auto data = child(run, "data");
  const auto tags = key_values_of(child(data, "tags"));
  const auto id = tags.find(kTrackingIdTag);
  if (id != tags.end()) description_.tracking_id = id->second;
  if (!description_.run_id.empty()) description_.tags[kRunIdTag] = description_.run_id;
  for (const auto& metric : child(data, "metrics")) {
    const auto step = child(metric, "step");
    // MLflow's answers omit zeros.
    last_steps_[text(metric, "key")] = step.is_number_integer() ? step.get<std::int64_t>() : 0;
  }
  // MLflow refuses to change a parameter, but not a tag.
  for (const auto& [name, value] : key_values_of(child(data, "params"))) {
    const auto own = description_.parameters.find(name);
    if (own == description_.parameters.end()) continue;
    if (own->second != value) description_.tags[name] = own->second;
    description_.parameters.erase(own);
  }
}

}  // namespace trainer
