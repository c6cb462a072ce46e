#include "launcher/report/console_sink.hpp"
#include "tests/support/ended_workers.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

namespace console_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

/// Returns the output of a console with these settings for the events.
std::string shown(const ConsoleSettings& settings, const std::vector<Event>& events) {
  std::string text;
  ConsoleSink sink(settings, [&](std::string_view line) { text += line; });
  for (const auto& event : events) sink.take(event, kNoon);
  return text;
}

RunFinished success() {
  RunFinished finished;
  finished.attempts = 1;
  return finished;
}

const RunStarted kStarted = {
    .run_id = "job", .program = "train.py", .local_world_size = 2, .store = "127.0.0.1:4711"};

}  // namespace

TEST_SUITE("console") {
  TEST_CASE("console: a successful run prints one line at level info and nothing at warning") {
    const std::vector<Event> healthy = {kStarted, AttemptStarted{}, WorkerStarted{}, worker(0),
                                        success()};
    CHECK(shown({}, healthy) ==
          "2026-11-21 12:34:56.789 info    node 0: starting 2 workers of train.py, store at "
          "127.0.0.1:4711\n");
    CHECK(shown({.level = LogLevel::warn}, healthy).empty());
    const auto all = shown({.level = LogLevel::debug, .node = "3"}, healthy);
    CHECK(std::count(all.begin(), all.end(), '\n') == 5);
    CHECK(all.find(" debug   node 3, attempt 0: rank 0 (pid 26600) succeeded after 3.25 s\n") !=
          std::string::npos);
  }

  TEST_CASE("console: the exit of a failed worker is a warning but that of a stopped one is not") {
    auto stopped = killed(1, SIGTERM);
    stopped.was_stopped = true;
    CHECK(shown({.level = LogLevel::warn}, {killed(0, SIGSEGV), stopped}) ==
          "2026-11-21 12:34:56.789 warning node 0, attempt 0: rank 0 (pid 26600) was killed by "
          "SIGSEGV after 3.25 s\n");
  }

  TEST_CASE("console: the final report covers the last attempt only") {
    auto early = killed(7, SIGTERM);
    auto late = killed(1, SIGTERM);
    early.was_stopped = late.was_stopped = true;
    RunFinished finished;
    finished.result = RunResult::failed;
    finished.attempts = 2;
    finished.failures = {failed(0, 3)};
    const auto text = shown({.level = LogLevel::error, .columns = 60},
                            {kStarted, AttemptStarted{}, early, AttemptStarted{.attempt = 1},
                             failed(0, 3), late, finished});
    CHECK(text.rfind("====", 0) == 0);
    CHECK(text.find("train.py FAILED after 2 attempts\n") != std::string::npos);
    CHECK(text.find("time      : 3.2 s after its start") != std::string::npos);
    CHECK(text.find("Stopped by ddprun after the failure: rank 1\n") != std::string::npos);
  }

  TEST_CASE("console: a failed run names the node that prints the report") {
    RunFinished finished;
    finished.result = RunResult::failed;
    finished.attempts = 1;
    finished.exit_code = 1;
    finished.reason = "--max_restarts is 0";
    finished.failures = {failed(0, 3)};
    CHECK(shown({.level = LogLevel::error, .node = "gpu2", .reporter = "gpu1"},
                {kStarted, AttemptStarted{}, finished}) ==
          "2026-11-21 12:34:56.789 error   node gpu2: the run ended after 1 attempt with exit code "
          "1: --max_restarts is 0; node gpu1 prints the report\n");
    finished.result = RunResult::no_rendezvous;
    CHECK(shown({.reporter = "gpu1"}, {finished}).find("prints the report") == std::string::npos);
  }

  TEST_CASE("console: an interrupted or unstarted run prints a line instead of a report") {
    RunFinished finished;
    finished.attempts = 1;
    finished.exit_code = 130;
    finished.reason = "received SIGINT";
    for (const auto result :
         {RunResult::interrupted, RunResult::not_started, RunResult::agent_failed}) {
      finished.result = result;
      CHECK(shown({}, {finished}) ==
            "2026-11-21 12:34:56.789 error   node 0: the run ended after 1 attempt with exit code "
            "130: received SIGINT\n");
    }
  }

  TEST_CASE("console: an event is printed in one line without control characters") {
    CHECK(shown({}, {Warning{"two\nlines\x1b[2J"}}) ==
          "2026-11-21 12:34:56.789 warning node 0: two lines\\x1b[2J\n");
  }

  TEST_CASE("console: only the level is coloured") {
    CHECK(shown({.is_colored = true}, {Warning{"x"}}) ==
          "2026-11-21 12:34:56.789 \x1b[33mwarning\x1b[0m node 0: x\n");
  }

  TEST_CASE("console: LOGLEVEL accepts Python's level names in any case") {
    CHECK(parse_log_level("DEBUG") == LogLevel::debug);
    CHECK(parse_log_level("Info") == LogLevel::info);
    CHECK(parse_log_level("WARNING") == LogLevel::warn);
    CHECK(parse_log_level("error") == LogLevel::error);
    CHECK(parse_log_level("CRITICAL") == LogLevel::error);
    CHECK_FALSE(parse_log_level("loud"));
  }
}

}  // namespace console_test
