#include "launcher/report/final_report.hpp"
#include "tests/support/ended_workers.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <utility>

namespace report_test {

using namespace ddprun;
using namespace ddprun::test;

namespace {

RunFinished rich_failure() {
  auto culprit = killed(2, SIGKILL);
  culprit.is_out_of_memory = true;
  culprit.peak_memory_bytes = 13LL * 1024 * 1024 * 1024;
  culprit.core_file = "/var/lib/cores/core.26602";
  culprit.log_folder = "/home/me/logs/job_abcd1234/attempt_1/2";
  culprit.error_message = "RuntimeError: the batch of 4096 samples does not fit into the memory";
  culprit.error_traceback = "Traceback (most recent call last):\n  File \"train.py\", line 3\n";
  culprit.ended_at = kNoon;
  culprit.error_time = kNoon - std::chrono::seconds(3);
  culprit.last_lines = {"epoch 1",
                        "\x1b[31mloading the whole data set into memory, please be "
                        "patient and wait\x1b[0m"};
  auto victim = failed(0, 1);
  victim.error_message = "PeerFailed: rank 2 closed its connection\nsecond line";
  RunFinished finished;
  finished.result = RunResult::failed;
  finished.exit_code = 1;
  finished.attempts = 2;
  finished.reason = "rank 2 was killed by SIGKILL and no restart is left";
  finished.failures = {culprit, victim};
  return finished;
}

const char* kReportAt60 = R"(============================================================
train.py FAILED after 2 attempts
rank 2 was killed by SIGKILL and no restart is left
------------------------------------------------------------
Root cause (first failure observed):
  rank      : 2 (local_rank: 2, pid: 26602)
  ended     : killed by signal 9, SIGKILL (out of memory)
  time      : 2026-11-21 12:34:56 UTC, 3.2 s after its start
  memory    : 13.0 GiB at its peak
  core      : /var/lib/cores/core.26602
  logs      : /home/me/logs/job_abcd1234/attempt_1/2
  message   : RuntimeError: the batch of 4096 samples does
              not fit into the memory
  recorded  : 2026-11-21 12:34:53 UTC
  traceback:
    | Traceback (most recent call last):
    |   File "train.py", line 3
  last lines of its standard error:
    | epoch 1
    | \x1b[31mloading the whole data set into memory, please be patient and wait\x1b[0m
------------------------------------------------------------
Failed later, probably because of it:
  rank 0    : exit code 1 after 3.2 s: PeerFailed: rank 2
              closed its connection
------------------------------------------------------------
Stopped by ddprun after the failure: ranks 1, 3-5
============================================================
)";

// The first line is empty only to keep the second one within the width of this file.
const char* kReportAt100 = R"(
====================================================================================================
train.py FAILED after 2 attempts
rank 2 was killed by SIGKILL and no restart is left
----------------------------------------------------------------------------------------------------
Root cause (first failure observed):
  rank      : 2 (local_rank: 2, pid: 26602)
  ended     : killed by signal 9, SIGKILL (out of memory)
  time      : 2026-11-21 12:34:56 UTC, 3.2 s after its start
  memory    : 13.0 GiB at its peak
  core      : /var/lib/cores/core.26602
  logs      : /home/me/logs/job_abcd1234/attempt_1/2
  message   : RuntimeError: the batch of 4096 samples does not fit into the memory
  recorded  : 2026-11-21 12:34:53 UTC
  traceback:
    | Traceback (most recent call last):
    |   File "train.py", line 3
  last lines of its standard error:
    | epoch 1
    | \x1b[31mloading the whole data set into memory, please be patient and wait\x1b[0m
----------------------------------------------------------------------------------------------------
Failed later, probably because of it:
  rank 0    : exit code 1 after 3.2 s: PeerFailed: rank 2 closed its connection
----------------------------------------------------------------------------------------------------
Stopped by ddprun after the failure: ranks 1, 3-5
====================================================================================================
)";

const char* kShortReport = R"(============================================================
a.out FAILED after 1 attempt
------------------------------------------------------------
Root cause (first failure observed):
  rank      : 0 (local_rank: 0, pid: 26600)
  ended     : exit code 3
  time      : 3.2 s after its start
============================================================
)";

}  // namespace

TEST_SUITE("final report") {
  TEST_CASE("final report: the root cause is complete and first at 60 and 100 columns") {
    const ReportFacts facts = {.program = "train.py", .stopped = {4, 1, 3, 5}};
    CHECK(final_report(rich_failure(), facts, 60) == kReportAt60);
    CHECK("\n" + final_report(rich_failure(), facts, 100) == kReportAt100);
    CHECK("\n" + final_report(rich_failure(), facts, 1000) == kReportAt100);
  }

  TEST_CASE("final report: unknown values are omitted") {
    RunFinished finished;
    finished.result = RunResult::failed;
    finished.attempts = 1;
    finished.failures = {failed(0, 3)};
    CHECK(final_report(finished, {.program = "a.out", .stopped = {}}, 60) == kShortReport);
  }

  TEST_CASE("final report: pid and run time of an unstarted worker are omitted") {
    RunFinished finished;
    finished.result = RunResult::failed;
    finished.attempts = 2;
    finished.failures = {failed(0, 126), failed(1, 126)};
    for (auto& worker : finished.failures) {
      worker.was_started = false;
      worker.error_message = "cannot start it";
    }
    const auto report = final_report(finished, {.program = "a.out", .stopped = {}}, 60);
    for (const char* text :
         {"  rank      : 0 (local_rank: 0)\n  ended     : not started\n",
          "  message   : cannot start it\n", "  rank 1    : not started: the message above\n"}) {
      CHECK(report.find(text) != std::string::npos);
    }
    CHECK(report.find("time") == std::string::npos);
  }

  TEST_CASE("final report: a traceback that is also in the last lines is shown once") {
    auto finished = rich_failure();
    finished.failures[0].last_lines = {"Traceback (most recent call last):",
                                       "  File \"train.py\", line 3"};
    const auto report = final_report(finished, {.program = "x", .stopped = {}}, 80);
    CHECK(report.find("traceback:") == std::string::npos);
    CHECK(report.find("    |   File \"train.py\", line 3\n") != std::string::npos);
  }

  TEST_CASE("final report: a message that is also in the last lines or traceback is shown once") {
    struct Row {
      std::string message;
      std::string traceback;
      std::vector<std::string> last_lines;
      std::vector<std::string> shown;  ///< of the last lines
    };
    const std::vector<Row> table = {
        {"disk full\nat all", "disk full\nat all\n", {"a", "error: disk full", "at all"}, {"a"}},
        {"ddprun::PeerFailed: gone", "", {"error: gone", "b"}, {"b"}},
        {"disk full",
         "",
         {"error: disk", "error: ", "disk full"},
         {"error: disk", "error: ", "disk full"}},
        {"", "", {"error: disk full"}, {"error: disk full"}},
    };
    for (const Row& row : table) {
      auto finished = rich_failure();
      auto& culprit = finished.failures[0];
      culprit.error_message = row.message;
      culprit.error_traceback = row.traceback;
      culprit.last_lines = row.last_lines;
      const auto report = final_report(finished, {.program = "x", .stopped = {}}, 80);
      CAPTURE(report);
      CHECK(report.find("traceback:") == std::string::npos);
      std::string quoted = "  last lines of its standard error:\n";
      for (const auto& line : row.shown) quoted += "    | " + line + "\n";
      CHECK(report.find(quoted + "---") != std::string::npos);
    }
  }

  TEST_CASE("final report: a traceback printed by PyTorch with its rank is not repeated") {
    auto finished = rich_failure();
    auto& culprit = finished.failures[0];
    culprit.error_traceback = "Traceback (most recent call last):\nValueError: no data";
    culprit.last_lines = {"[rank13]: Traceback (most recent call last):",
                          "[rank13]: ValueError: no data"};
    CHECK(final_report(finished, {.program = "x"}, 80).find("traceback:") == std::string::npos);
    culprit.last_lines.back() = "[rankless]: ValueError: no data";
    CHECK(final_report(finished, {.program = "x"}, 80).find("traceback:") != std::string::npos);
  }

  TEST_CASE("final report: of ranks that hung together none is blamed for the others") {
    RunFinished finished{.result = RunResult::failed, .attempts = 1};
    for (int rank = 0; rank < 2; ++rank) {
      finished.failures.push_back(killed(rank, SIGKILL));
      finished.failures.back().hung = "waits in a collective";
    }
    finished.failures.push_back(failed(2, 1));
    const auto report = final_report(finished, {.program = "x"}, 80);
    CHECK_MESSAGE(report.find("Root cause (one of the ranks that hung):\n") != std::string::npos,
                  report);
    CHECK_MESSAGE(report.find(R"(
Hung, too:
  rank 1    : SIGKILL after a hang: waits in a collective after 3.2 s
--------------------------------------------------------------------------------
Failed later, probably because of it:
  rank 2    : exit code 1 after 3.2 s
)") != std::string::npos,
                  report);
    std::swap(finished.failures.front(), finished.failures.back());
    const auto after_exit = final_report(finished, {.program = "x"}, 80);
    CHECK(after_exit.find("Root cause (first failure observed):\n") != std::string::npos);
    CHECK(after_exit.find("Hung, too:") == std::string::npos);
  }

  TEST_CASE("final report: lines of a worker are not wrapped") {
    auto finished = rich_failure();
    const std::vector<std::string> lines = {"    result = first(argument) + second(argument)",
                                            "                               ^^^^^^^^^^^^^^^^"};
    finished.failures[0].last_lines = lines;
    const auto report = final_report(finished, {.program = "x"}, 40);
    CHECK(report.find("    | " + lines[0] + "\n    | " + lines[1] + "\n") != std::string::npos);
  }

  TEST_CASE("final report: at most eight victims are shown and the others counted") {
    auto finished = rich_failure();
    for (int rank = 3; rank < 1003; ++rank) {
      finished.failures.push_back(failed(rank, 1));
      finished.failures.back().error_message = "rank " + std::to_string(rank) + " of many";
    }
    const auto report = final_report(finished, {.program = "x", .stopped = {}}, 80);
    CHECK(report.find("  rank 9    : exit code 1") != std::string::npos);
    CHECK(report.find("  rank 10 ") == std::string::npos);
    CHECK(report.find("  and ranks 10-1002\n") != std::string::npos);
  }

  TEST_CASE("final report: identical exits of many ranks are shown once with their count") {
    auto finished = rich_failure();
    for (int rank = 3; rank < 515; ++rank) finished.failures.push_back(failed(rank, 2));
    for (int rank = 515; rank < 520; ++rank) {
      finished.failures.push_back(failed(rank, 2));
      finished.failures.back().ran_seconds = rank == 515 ? 1.5 : 3.25;
      finished.failures.back().error_message = finished.failures.front().error_message;
    }
    const auto report = final_report(finished, {.program = "x", .stopped = {}}, 80);
    CHECK_MESSAGE(report.find(R"(
  rank 0    : exit code 1 after 3.2 s: PeerFailed: rank 2 closed its connection
  512 ranks : exit code 2 after 3.2 s (ranks 3-514)
  5 ranks   : exit code 2 after 1.5 to 3.2 s (ranks 515-519): the message above
====)") != std::string::npos,
                  report);
  }
}

}  // namespace report_test
