#include "trainers/tracking/mlflow_messages.hpp"
#include "trainers/tracking/mlflow_setup.hpp"
#include "trainers/tracking/server_address.hpp"
#include <ddprun/error.hpp>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace mlflow_test {

using nlohmann::json;
using trainer::HttpAnswer;
using trainer::HttpRequest;
using trainer::MlflowSetup;
using trainer::ServerAnswer;
using trainer::Verdict;

namespace {

std::string refusal(const std::string& uri) {
  try {
    trainer::parse_server_address(uri, "--mlflow");
    return "";
  } catch (const ddprun::Error& error) {
    CHECK(error.code() == ddprun::Errc::usage);
    return error.what();
  }
}

HttpAnswer answer(unsigned status, const json& body) {
  return {.status = status, .text = body.dump()};
}

HttpAnswer refused(unsigned status, const std::string& code) {
  return answer(status, {{"error_code", code}, {"message", "because"}});
}

/// The last part of the path.
std::string method_of(const HttpRequest& request) {
  return request.path.substr(std::string("/api/2.0/mlflow/").size());
}

json run_with(const json& data) {
  return {{"runs", {{{"info", {{"run_id", "old"}}}, {"data", data}}}}};
}

trainer::RunDescription description() {
  return {.experiment = "",
          .tracking_id = "mine",
          .run_id = "job",
          .is_restart = false,
          .start_milliseconds = 5,
          .parameters = {{"lr", "0.1"}, {"epochs", "4"}},
          .tags = {{"ddprun.attempt", "0"}}};
}

/// Passes the responses in. Returns the methods of the requests, one for each response.
std::vector<std::string> exchange(MlflowSetup& setup, const std::vector<HttpAnswer>& answers) {
  std::vector<std::string> methods;
  for (const HttpAnswer& one : answers) {
    REQUIRE_FALSE(setup.is_ready());
    REQUIRE_FALSE(setup.is_refused());
    methods.push_back(method_of(setup.request()));
    const std::string problem = setup.take(trainer::read_answer(one));
    CHECK_MESSAGE(problem.empty(), problem);
  }
  return methods;
}

const HttpAnswer kDone = answer(200, json::object());
const HttpAnswer kCreated = answer(200, {{"run", {{"info", {{"run_id", "new"}}}}}});

}  // namespace

TEST_SUITE("MLflow") {
  TEST_CASE("MLflow: a server address is a host with optional port and path") {
    using trainer::ServerAddress;
    const auto parse = [](const std::string& uri) {
      return trainer::parse_server_address(uri, "--mlflow");
    };
    CHECK(parse("http://host") == ServerAddress{"host", "80", "", "http://host"});
    CHECK(parse("http://host:5000/") == ServerAddress{"host", "5000", "", "http://host:5000"});
    CHECK(parse("http://[::1]:5000/ml/flow/") ==
          ServerAddress{"::1", "5000", "/ml/flow", "http://[::1]:5000/ml/flow"});
  }

  TEST_CASE("MLflow: an invalid server address is rejected with a remedy") {
    const std::vector<std::pair<std::string, std::string>> cases = {
        {"https://host", "needs TLS, which is not supported; give the http:// address of a proxy"},
        {"sqlite:///mlflow.db", "is not the address of a tracking server; give http://HOST:PORT"},
        {"./mlruns", "is not the address of a tracking server"},
        {"databricks", "is not the address of a tracking server"},
        {"http://me:secret@host", "set MLFLOW_TRACKING_USERNAME"},
        {"http://", "is malformed"},
        {"http://:80", "is malformed"},
        {"http://host:", "is malformed"},
        {"http://host:65536", "is malformed"},
        {"http://host:80x", "is malformed"},
        {"http://[::1", "is malformed"},
        {"http://[::1]80", "is malformed"},
        {"http://ho st", "is malformed"},
        {"http://host/?a", "is malformed"},
        {"http://host/\r\nX: y", "is malformed"},
    };
    for (const auto& [uri, part] : cases) {
      const std::string text = refusal(uri);
      CHECK_MESSAGE(text.starts_with("--mlflow: "), uri, ": ", text);
      CHECK_MESSAGE(text.find(part) != std::string::npos, uri, ": ", text);
      CHECK_MESSAGE(text.find("secret") == std::string::npos, text);
    }
  }

  TEST_CASE("MLflow: a response is classified by its status and content") {
    struct Case {
      HttpAnswer answer;
      Verdict verdict;
    };
    const std::vector<Case> cases = {
        {answer(200, json::object()), Verdict::accepted},
        {answer(200, json::array()), Verdict::unavailable},
        {{200, "<html>a proxy</html>"}, Verdict::unavailable},
        {{200, ""}, Verdict::unavailable},
        {{0, "connection refused"}, Verdict::unavailable},
        {{301, ""}, Verdict::unavailable},
        {refused(400, "INVALID_PARAMETER_VALUE"), Verdict::refused},
        {refused(404, "RESOURCE_DOES_NOT_EXIST"), Verdict::refused},
        {{404, "no such page"}, Verdict::unavailable},
        {{400, "{}"}, Verdict::unavailable},
        {refused(401, "UNAUTHENTICATED"), Verdict::denied},
        {refused(403, "PERMISSION_DENIED"), Verdict::denied},
        {{401, "You are not authenticated."}, Verdict::denied},
        {{403, "Invalid Host header"}, Verdict::denied},
        {refused(408, "REQUEST_TIMEOUT"), Verdict::unavailable},
        {refused(429, "REQUEST_LIMIT_EXCEEDED"), Verdict::unavailable},
        {refused(500, "INTERNAL_ERROR"), Verdict::unavailable},
        {refused(503, "TEMPORARILY_UNAVAILABLE"), Verdict::unavailable},
    };
    for (const auto& [given, verdict] : cases) {
      const ServerAnswer read = trainer::read_answer(given);
      CHECK_MESSAGE(read.verdict == verdict, given.status, " ", given.text);
      CHECK((read.verdict == Verdict::accepted) == read.problem.empty());
    }
    CHECK(trainer::read_answer(refused(400, "X")).problem == "HTTP status 400: because");
    CHECK(trainer::read_answer({502, std::string(9000, '\n')}).problem.size() < 300);
  }

  TEST_CASE("MLflow: requests follow MLflow's REST API") {
    const std::vector<trainer::Point> points = {{"Loss/train", 0.1, 7, 1000}};
    const auto logged = trainer::log_points("r", points);
    CHECK(method_of(logged) == "runs/log-batch");
    CHECK(json::parse(logged.body) == json::parse(R"({"run_id": "r", "metrics":
                [{"key": "Loss/train", "value": 0.1, "timestamp": 1000, "step": 7}]})"));
    CHECK(json::parse(trainer::log_texts("r", {{"lr", "0.1"}}, {{"a", "b"}}).body) ==
          json::parse(R"({"run_id": "r", "params": [{"key": "lr", "value": "0.1"}],
                          "tags": [{"key": "a", "value": "b"}]})"));
    CHECK(json::parse(trainer::update_run("r", trainer::RunStatus::killed, 9).body) ==
          json::parse(R"({"run_id": "r", "status": "KILLED", "end_time": 9})"));
    CHECK(json::parse(trainer::update_run("r", trainer::RunStatus::running, 9).body) ==
          json::parse(R"({"run_id": "r", "status": "RUNNING"})"));
    CHECK(trainer::get_experiment("a b&\xc3\xa9").path ==
          "/api/2.0/mlflow/experiments/get-by-name?experiment_name=a%20b%26%C3%A9");
    const auto found = json::parse(trainer::find_run("1", "ddprun.run_id", "it's", true).body);
    CHECK(found.at("filter") ==
          "tags.`ddprun.run_id` = \"it's\" and attributes.status != 'FINISHED'");
  }

  TEST_CASE("MLflow: values that a filter cannot quote are not searchable") {
    for (const char* value : {"job", "it's", "a \"b\"", "a\\b", "a; b -- c"}) {
      CHECK_MESSAGE(trainer::is_searchable(value), value);
    }
    for (const char* value : {"", "it's \"b\"", "a\\"}) {
      CHECK_FALSE_MESSAGE(trainer::is_searchable(value), value);
    }
  }

  TEST_CASE("MLflow: requests respect the server's limits and accept any bytes") {
    const std::vector<trainer::Point> points(1001, {"a", 1, 1, 1});
    CHECK(json::parse(trainer::log_points("r", points).body).at("metrics").size() == 1000);
    trainer::Texts texts;
    for (int i = 0; i < 101; ++i) texts["tag" + std::to_string(i)] = "\xff";
    CHECK(json::parse(trainer::log_texts("r", {}, texts).body).at("tags").size() == 100);
  }

  TEST_CASE("MLflow: user and password take precedence over a token") {
    CHECK(trainer::authorization_of("Aladdin", "open sesame", "token") ==
          "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
    CHECK(trainer::authorization_of("a", "b", "") == "Basic YTpi");
    CHECK(trainer::authorization_of("a", "bc", "") == "Basic YTpiYw==");
    CHECK(trainer::authorization_of("", "", "token") == "Bearer token");
    CHECK(trainer::authorization_of("a", "", "").empty());
  }

  TEST_CASE("MLflow: a new training creates a run in the default experiment") {
    MlflowSetup setup(description());
    CHECK(exchange(setup, {kDone, kCreated, kDone}) ==
          std::vector<std::string>{"runs/search", "runs/create", "runs/log-batch"});
    CHECK(setup.is_ready());
    CHECK(setup.mlflow_run() == "new");
    CHECK(setup.tracking_id() == "mine");
    CHECK(setup.last_steps().empty());
    CHECK_FALSE(setup.lacks_earlier_run());
  }

  TEST_CASE("MLflow: a resumed training detects that its run was deleted") {
    auto resumed = description();
    resumed.has_run = true;
    MlflowSetup deleted(resumed);
    exchange(deleted, {kDone, kCreated, kDone});
    CHECK(deleted.lacks_earlier_run());
    MlflowSetup found(resumed);
    exchange(found, {answer(200, run_with({})), kDone, kDone});
    CHECK_FALSE(found.lacks_earlier_run());
  }

  TEST_CASE("MLflow: a web page in a response is not quoted in the problem") {
    const auto problem = [](unsigned status, const char* text) {
      return trainer::read_answer({status, text}).problem;
    };
    CHECK(problem(404, "<!doctype html>\n<html>") == "HTTP status 404, not by MLflow");
    CHECK(problem(302, "") == "HTTP status 302, not by MLflow");
    CHECK(problem(503, "busy") == "HTTP status 503: busy");
  }

  TEST_CASE("MLflow: a missing experiment is created even by concurrent trainings") {
    auto named = description();
    named.experiment = "e";
    const auto there = answer(200, {{"experiment", {{"experiment_id", "3"}}}});
    const auto absent = refused(404, "RESOURCE_DOES_NOT_EXIST");
    const std::string get = "experiments/get-by-name?experiment_name=e";
    MlflowSetup old(named);
    CHECK(exchange(old, {there}) == std::vector<std::string>{get});
    CHECK(json::parse(old.request().body).at("experiment_ids") == json({"3"}));
    MlflowSetup made(named);
    CHECK(exchange(made, {absent, answer(200, {{"experiment_id", "4"}})}) ==
          std::vector<std::string>{get, "experiments/create"});
    CHECK(json::parse(made.request().body).at("experiment_ids") == json({"4"}));
    MlflowSetup raced(named);
    exchange(raced, {absent, refused(400, "RESOURCE_ALREADY_EXISTS"), there});
    CHECK(json::parse(raced.request().body).at("experiment_ids") == json({"3"}));
  }

  TEST_CASE("MLflow: a resumed training continues its run and tags changed settings") {
    MlflowSetup setup(description());
    const json data = {
        {"metrics", {{{"key", "Loss"}, {"step", 30}}, {{"key", "Test"}}}},
        {"params", {{{"key", "lr"}, {"value", "0.1"}}, {{"key", "epochs"}, {"value", "2"}}}}};
    exchange(setup, {answer(200, run_with(data))});
    CHECK(method_of(setup.request()) == "runs/update");
    exchange(setup, {kDone});
    const auto texts = json::parse(setup.request().body);
    CHECK(texts.at("params").empty());
    CHECK(texts.at("tags") == json::parse(R"([{"key": "ddprun.attempt", "value": "0"},
        {"key": "ddprun.run_id", "value": "job"}, {"key": "epochs", "value": "4"}])"));
    exchange(setup, {kDone});
    CHECK(setup.is_ready());
    CHECK(setup.mlflow_run() == "old");
    CHECK(setup.last_steps() == trainer::LastSteps{{"Loss", 30}, {"Test", 0}});
  }

  TEST_CASE("MLflow: a restart without a checkpoint continues the run's unfinished MLflow run") {
    auto restarted = description();
    restarted.is_restart = true;
    MlflowSetup setup(restarted);
    exchange(setup, {kDone});
    const auto search = json::parse(setup.request().body);
    CHECK(search.at("filter") ==
          "tags.`ddprun.run_id` = 'job' and attributes.status != 'FINISHED'");
    const json tags = {{{"key", "ddprun.tracking_id"}, {"value", "first"}}};
    exchange(setup, {answer(200, run_with({{"tags", tags}})), kDone, kDone});
    CHECK(setup.is_ready());
    CHECK(setup.tracking_id() == "first");

    restarted.run_id = "";
    MlflowSetup nameless(restarted);
    CHECK(exchange(nameless, {kDone, kCreated})[1] == "runs/create");
  }

  TEST_CASE("MLflow: a run whose ids cannot be quoted is created without a search") {
    auto odd = description();
    odd.tracking_id = "it's \"mine\"";
    odd.run_id = "job\\";
    odd.is_restart = true;
    MlflowSetup setup(odd);
    CHECK(exchange(setup, {kCreated}) == std::vector<std::string>{"runs/create"});
    odd.run_id = "job";
    MlflowSetup by_run_id(odd);
    CHECK(exchange(by_run_id, {kDone, kCreated}) ==
          std::vector<std::string>{"runs/search", "runs/create"});
  }

  TEST_CASE("MLflow: a new run is created after a rejected search") {
    auto restarted = description();
    restarted.is_restart = true;
    MlflowSetup setup(restarted);
    CHECK(exchange(setup, {refused(400, "INVALID_PARAMETER_VALUE"), kCreated}) ==
          std::vector<std::string>{"runs/search", "runs/create"});
  }

  TEST_CASE("MLflow: a rejected run or experiment or access ends the setup") {
    const HttpAnswer invalid = refused(400, "INVALID_PARAMETER_VALUE");
    const HttpAnswer absent = refused(404, "RESOURCE_DOES_NOT_EXIST");
    auto named = description();
    named.experiment = "e";
    struct Case {
      trainer::RunDescription description;
      std::vector<HttpAnswer> before;
      HttpAnswer last;
    };
    const std::vector<Case> cases = {
        {description(), {kDone}, invalid},
        {description(), {}, refused(403, "PERMISSION_DENIED")},
        {description(), {kDone, kCreated}, refused(401, "UNAUTHENTICATED")},
        {named, {}, invalid},
        {named, {absent}, invalid},
    };
    for (const Case& one : cases) {
      MlflowSetup setup(one.description);
      exchange(setup, one.before);
      CHECK(setup.take(trainer::read_answer(one.last)) ==
            "HTTP status " + std::to_string(one.last.status) + ": because");
      CHECK(setup.is_refused());
    }
  }

  TEST_CASE("MLflow: a request is retried after an unusable response") {
    MlflowSetup setup(description());
    const std::vector<HttpAnswer> unusable = {
        {0, "connection refused"}, {500, ""}, {200, "nonsense"}, answer(200, {{"runs", {1}}})};
    for (const HttpAnswer& one : unusable) {
      const auto before = setup.request();
      CHECK_FALSE(setup.take(trainer::read_answer(one)).empty());
      CHECK(setup.request() == before);
    }
    exchange(setup, {kDone});
    CHECK_FALSE(setup.take(trainer::read_answer(kDone)).empty());
    CHECK(method_of(setup.request()) == "runs/create");
  }

  TEST_CASE("MLflow: a run is ready even if its parameters and tags are rejected") {
    MlflowSetup setup(description());
    exchange(setup, {kDone, kCreated, refused(400, "X")});
    CHECK(setup.is_ready());
  }
}

}  // namespace mlflow_test
