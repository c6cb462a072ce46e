// Stacks on the console and in the final report.
#include "launcher/report/console_sink.hpp"
#include "launcher/report/final_report.hpp"

#include <doctest/doctest.h>

namespace stacks_report_test {

using namespace ddprun;

namespace {

StacksTaken taken(int rank, const std::string& file) {
  return {.attempt = 1,
          .rank = rank,
          .pid = 70 + rank,
          .reason = "still running 30.0 s after the request to stop",
          .means = {"gdb", "faulthandler"},
          .problems = {"py-spy: refused"},
          .file = file,
          .lines = {"Thread 1:", "#0 a", "#1 b", "#2 c", "#3 d", "#4 e", "#5 f"}};
}

std::string shown(const ConsoleSettings& settings, const std::vector<Event>& events) {
  std::string text;
  ConsoleSink sink(settings, [&](std::string_view line) { text += line; });
  for (const auto& event : events) sink.take(event, {});
  return text;
}

RunFinished failure() {
  RunFinished finished;
  finished.result = RunResult::failed;
  finished.attempts = 2;
  return finished;
}

}  // namespace

TEST_SUITE("stacks in reports") {
  TEST_CASE("stacks report: stacks that have no file are printed with the rank") {
    const auto text = shown({}, {taken(3, "")});
    CHECK(text.substr(text.find("warning")) ==
          "warning node 0, attempt 1: stacks of rank 3 (pid 73), still running "
          "30.0 s after the request to stop; taken by gdb and faulthandler; py-spy: refused\n"
          "[rank 3]: Thread 1:\n[rank 3]: #0 a\n[rank 3]: #1 b\n[rank 3]: #2 c\n"
          "[rank 3]: #3 d\n[rank 3]: #4 e\n[rank 3]: #5 f\n");
  }

  TEST_CASE("stacks report: ranks with the same stacks are listed, many ranks are counted") {
    auto stacks = taken(0, "");
    stacks.same = {1, 3};
    stacks.node = "b";
    const auto text = shown({}, {stacks});
    CHECK(text.find("stacks of ranks 0, 1, 3, still running") != std::string::npos);
    CHECK(text.find("[ranks 0, 1, 3]: #0 a\n") != std::string::npos);
    for (int rank = 5; rank < 99; rank += 2) stacks.same.push_back(rank);
    CHECK(shown({}, {stacks}).find("[50 ranks]: #0 a\n") != std::string::npos);
    stacks.same.clear();
    CHECK(shown({}, {stacks}).find("stacks of rank 0 (pid 70) on node b, still") !=
          std::string::npos);
  }

  TEST_CASE("stacks report: stacks in a file or in the worker's output are not repeated") {
    CHECK(shown({}, {taken(3, "/logs/stacks.txt")})
              .ends_with("; py-spy: refused: /logs/stacks.txt\n"));
    auto printed = taken(0, "");
    printed.means = {"faulthandler"};
    printed.was_ended = true;
    CHECK(shown({}, {printed}).find("; taken by faulthandler, which ended it") !=
          std::string::npos);
    CHECK(shown({}, {printed}).find("[rank 0]") == std::string::npos);
    printed.node = "b";
    CHECK(shown({}, {printed}).find("[rank 0]") != std::string::npos);
    CHECK(shown({.level = LogLevel::error}, {taken(3, "")}).empty());
  }

  TEST_CASE("stacks report: a worker that ended without its stack is reported") {
    auto silent = taken(2, "");
    silent.means.clear();
    silent.was_ended = true;
    silent.problems = {"faulthandler: Python printed nothing"};
    silent.lines.clear();
    CHECK(shown({}, {silent})
              .ends_with("attempt 1: no stacks of rank 2 (pid 72), which was ended for them, still "
                         "running 30.0 s after the request to stop; faulthandler: Python "
                         "printed nothing\n"));
    const auto text = shown({.level = LogLevel::error, .columns = 60}, {silent, failure()});
    INFO(text);
    CHECK(text.find("nothing was found") != std::string::npos);
  }

  TEST_CASE("stacks report: the final report names files or innermost frames") {
    const auto text = shown({.level = LogLevel::error, .columns = 60},
                            {AttemptStarted{}, taken(9, ""), AttemptStarted{.attempt = 1},
                             taken(0, "/logs/1/stacks.txt"), taken(1, ""), failure()});
    CHECK(text.find("What the workers were doing (still running 30.0 s") != std::string::npos);
    CHECK(text.find("  rank 0    : /logs/1/stacks.txt\n") != std::string::npos);
    CHECK(text.find("  rank 1, by gdb and faulthandler:\n    | Thread 1:\n    | #0 a\n") !=
          std::string::npos);
    CHECK(text.find("#4 e") != std::string::npos);
    CHECK(text.find("#5 f") == std::string::npos);
    CHECK(text.find("rank 9") == std::string::npos);
  }

  TEST_CASE("stacks report: the final report contains at most eight stacks") {
    ReportFacts facts;
    for (int rank = 0; rank < 20; ++rank) facts.stacks.push_back(taken(rank, "/logs/stacks.txt"));
    const auto text = final_report(failure(), facts, 80);
    CHECK(text.find("rank 7 ") != std::string::npos);
    CHECK(text.find("rank 8 ") == std::string::npos);
    CHECK(text.find("  and 12 more stacks\n") != std::string::npos);
  }
}

}  // namespace stacks_report_test
