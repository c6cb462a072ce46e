// Console output of one of several nodes, for users and for the ddprun that started it.
#include "launcher/report/console_sink.hpp"

#include <doctest/doctest.h>

#include <regex>

namespace nodes_report_test {

using namespace ddprun;

namespace {

/// With TIME in place of each time.
std::string shown(const ConsoleSettings& settings, const std::vector<Event>& events) {
  std::string text;
  ConsoleSink sink(settings, [&text](std::string_view lines) { text += lines; });
  for (const auto& event : events) sink.take(event, {});
  return std::regex_replace(text, std::regex(R"(\d{4}(-\d\d){2} (\d\d:){2}\d\d\.\d{3})"), "TIME");
}

}  // namespace

TEST_SUITE("console of several nodes") {
  TEST_CASE("console: a node of several reports the rendezvous and the outcome of the run") {
    const RunStarted started = {.run_id = "job",
                                .program = "train.py",
                                .local_world_size = 2,
                                .store = "127.0.0.1:4711",
                                .has_to_meet = true};
    RunFinished finished;
    finished.attempts = 1;
    finished.is_of_many = true;
    finished.reason = "all workers succeeded";
    CHECK(shown({.node = "a"}, {started, finished}) ==
          "TIME info    node a: meeting the other nodes of run job at "
          "127.0.0.1:4711, to start 2 workers of train.py\n"
          "TIME info    node a: the run has ended after 1 attempt: all workers "
          "succeeded\n");
  }

  TEST_CASE("console: a leaving node reports that it left instead of the end of the run") {
    RunFinished finished;
    finished.result = RunResult::interrupted;
    finished.attempts = 2;
    finished.exit_code = 143;
    finished.reason = "this node was asked to stop by SIGTERM";
    finished.is_of_many = true;
    finished.scope = OutcomeScope::node;
    CHECK(shown({.node = "a"}, {finished}) ==
          "TIME warning node a: left the run after 2 attempts with exit code "
          "143: this node was asked to stop by SIGTERM\n");
  }

  TEST_CASE("console: a successful node that stops waiting reports that others have not ended") {
    RunFinished finished;
    finished.attempts = 1;
    finished.reason = "the workers of this node succeeded, and those of others have not ended";
    finished.is_of_many = true;
    finished.scope = OutcomeScope::node;
    CHECK(shown({.node = "a"}, {finished}) ==
          "TIME warning node a: left the run after 1 attempt: the workers of this node succeeded, "
          "and those of others have not ended\n");
  }

  TEST_CASE("console: all lines sent to another ddprun are marked") {
    RunFinished finished;
    finished.result = RunResult::failed;
    const ConsoleSettings settings = {.node = "a", .columns = 60, .mark = "<m>"};
    CHECK(shown(settings, {Note{"ready"}}) ==
          "<m>Lready\x1f"
          "TIME info    ready\n");
    const auto report = shown(settings, {finished});
    CHECK(report.rfind("<m>R" + std::string(60, '=') + "\n<m>R", 0) == 0);
    CHECK(report.ends_with("=\n<m>E\n"));
  }
}

}  // namespace nodes_report_test
