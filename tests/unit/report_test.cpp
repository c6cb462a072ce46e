#include "launcher/report/console_sink.hpp"
#include "launcher/report/event_text.hpp"
#include "launcher/report/exit_code.hpp"
#include "launcher/report/final_report.hpp"
#include "rendezvous/base/signal_name.hpp"
#include "rendezvous/base/text.hpp"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <csignal>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

// 2026-11-21 12:34:56 UTC.
const std::chrono::system_clock::time_point kNoon{1795264496s + 789ms};

WorkerExited worker(int rank) {
  WorkerExited exited;
  exited.rank = exited.local_rank = rank;
  exited.pid = 26600 + rank;
  exited.ran_seconds = 3.25;
  return exited;
}

WorkerExited killed(int rank, int signal) {
  auto exited = worker(rank);
  exited.signal = signal;
  return exited;
}

WorkerExited failed(int rank, int code) {
  auto exited = worker(rank);
  exited.exit_code = code;
  return exited;
}

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
    | \x1b[31mloading the whole data set into memory, please
    | be patient and wait\x1b[0m
------------------------------------------------------------
Failed later, probably because of it:
  rank 0    : exit code 1 after 3.2 s: PeerFailed: rank 2
              closed its connection
------------------------------------------------------------
Stopped by ddprun after the failure: ranks 1, 3-5
============================================================
)";

// Its first line is empty: only so the second keeps to the width of this file.
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

/// What a console of these settings shows of the events.
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

TEST_SUITE("final report") {
  TEST_CASE("the root cause comes first and whole, victims apart, in 60 and in 100 columns") {
    const ReportFacts facts = {.program = "train.py", .stopped = {4, 1, 3, 5}};
    CHECK(final_report(rich_failure(), facts, 60) == kReportAt60);
    CHECK("\n" + final_report(rich_failure(), facts, 100) == kReportAt100);
    CHECK("\n" + final_report(rich_failure(), facts, 1000) == kReportAt100);
  }

  TEST_CASE("what is not known is not mentioned") {
    RunFinished finished;
    finished.result = RunResult::failed;
    finished.attempts = 1;
    finished.failures = {failed(0, 3)};
    CHECK(final_report(finished, {.program = "a.out", .stopped = {}}, 60) == kShortReport);
  }

  TEST_CASE("a traceback that also stands in the last lines is shown once") {
    auto finished = rich_failure();
    finished.failures[0].last_lines = {"Traceback (most recent call last):",
                                       "  File \"train.py\", line 3"};
    const auto report = final_report(finished, {.program = "x", .stopped = {}}, 80);
    CHECK(report.find("traceback:") == std::string::npos);
    CHECK(report.find("    |   File \"train.py\", line 3\n") != std::string::npos);
  }

  TEST_CASE("a message that also stands in the last lines and in the traceback is shown once") {
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

  TEST_CASE("a traceback that PyTorch printed behind its rank is not shown a second time") {
    auto finished = rich_failure();
    auto& culprit = finished.failures[0];
    culprit.error_traceback = "Traceback (most recent call last):\nValueError: no data";
    culprit.last_lines = {"[rank13]: Traceback (most recent call last):",
                          "[rank13]: ValueError: no data"};
    CHECK(final_report(finished, {.program = "x"}, 80).find("traceback:") == std::string::npos);
    culprit.last_lines.back() = "[rankless]: ValueError: no data";
    CHECK(final_report(finished, {.program = "x"}, 80).find("traceback:") != std::string::npos);
  }

  TEST_CASE("what it quotes is wrapped on a terminal and stays whole elsewhere") {
    auto finished = rich_failure();
    const std::string line = "ValueError: " + std::string(60, 'a') + " " + std::string(60, 'b');
    finished.failures[0].last_lines = {line};
    CHECK(final_report(finished, {.program = "x"}, 80).find(line) == std::string::npos);
    const auto whole = final_report(finished, {.program = "x", .is_for_terminal = false}, 80);
    CHECK(whole.find("    | " + line + "\n") != std::string::npos);
  }

  TEST_CASE("of a thousand victims eight are shown and the others counted by rank") {
    auto finished = rich_failure();
    for (int rank = 3; rank < 1003; ++rank) finished.failures.push_back(failed(rank, 1));
    const auto report = final_report(finished, {.program = "x", .stopped = {}}, 80);
    CHECK(report.find("  rank 9    : exit code 1") != std::string::npos);
    CHECK(report.find("  rank 10 ") == std::string::npos);
    CHECK(report.find("  and ranks 10-1002\n") != std::string::npos);
  }
}

TEST_SUITE("console") {
  TEST_CASE("a healthy run is one line by default and silent from warnings on") {
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

  TEST_CASE("a failed worker is a warning, one that ddprun stopped is not") {
    auto stopped = killed(1, SIGTERM);
    stopped.was_stopped = true;
    CHECK(shown({.level = LogLevel::warn}, {killed(0, SIGSEGV), stopped}) ==
          "2026-11-21 12:34:56.789 warning node 0, attempt 0: rank 0 (pid 26600) was killed by "
          "SIGSEGV after 3.25 s\n");
  }

  TEST_CASE("a failed run ends with the report about its last attempt") {
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

  TEST_CASE("an interrupted run and one that could not start end with one line, no report") {
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

  TEST_CASE("one event is one line without control characters") {
    CHECK(shown({}, {Warning{"two\nlines\x1b[2J"}}) ==
          "2026-11-21 12:34:56.789 warning node 0: two lines\\x1b[2J\n");
  }

  TEST_CASE("color is around the level only") {
    CHECK(shown({.is_colored = true}, {Warning{"x"}}) ==
          "2026-11-21 12:34:56.789 \x1b[33mwarning\x1b[0m node 0: x\n");
  }

  TEST_CASE("LOGLEVEL is understood as Python names levels, in any case") {
    CHECK(parse_log_level("DEBUG") == LogLevel::debug);
    CHECK(parse_log_level("Info") == LogLevel::info);
    CHECK(parse_log_level("WARNING") == LogLevel::warn);
    CHECK(parse_log_level("error") == LogLevel::error);
    CHECK(parse_log_level("CRITICAL") == LogLevel::error);
    CHECK_FALSE(parse_log_level("loud"));
  }
}

TEST_SUITE("event text") {
  TEST_CASE("ranks are listed short") {
    CHECK(format_ranks({}) == "");
    CHECK(format_ranks({3}) == "3");
    CHECK(format_ranks({4, 3}) == "3, 4");
    CHECK(format_ranks({0, 2, 3, 4, 9}) == "0, 2-4, 9");
    CHECK(ranks_phrase({3}) == "rank 3");
    CHECK(ranks_phrase({3, 4}) == "ranks 3, 4");
  }

  TEST_CASE("an unknown signal is still a signal") {
    CHECK(signal_name(SIGKILL) == "SIGKILL");
    CHECK(signal_name(SIGRTMIN + 2) == "SIGRTMIN+2");
    CHECK(signal_name(99) == "signal 99");
    CHECK(signal_number("rtmin+2") == SIGRTMIN + 2);
    CHECK(signal_number("int") == SIGINT);
    CHECK_FALSE(signal_number(""));
    CHECK_FALSE(signal_number("9"));
  }
}

TEST_SUITE("exit code") {
  TEST_CASE("they are those of the man page's table") {
    struct Case {
      RunResult result;
      std::vector<WorkerExited> failures;
      int signal;
      int torchrun;
      int worker;
    };
    const Case cases[] = {
        {RunResult::succeeded, {}, 0, 0, 0},
        {RunResult::failed, {failed(0, 7)}, 0, 1, 7},
        {RunResult::failed, {failed(0, 255)}, 0, 1, 255},
        {RunResult::failed, {killed(0, SIGSEGV), failed(1, 7)}, 0, 1, 139},
        {RunResult::failed, {killed(0, SIGKILL)}, 0, 1, 137},
        {RunResult::failed, {}, 0, 1, 1},
        {RunResult::not_started, {}, 0, 1, 126},
        {RunResult::agent_failed, {}, 0, 1, 1},
        {RunResult::interrupted, {}, SIGINT, 130, 130},
        {RunResult::interrupted, {failed(0, 7)}, SIGTERM, 143, 143},
        {RunResult::interrupted, {}, 0, 1, 1},
    };
    for (const auto& [result, failures, signal, torchrun, from_worker] : cases) {
      CHECK(exit_code_for(result, ExitCodePolicy::torchrun, failures, signal) == torchrun);
      CHECK(exit_code_for(result, ExitCodePolicy::worker, failures, signal) == from_worker);
    }
  }
}

TEST_SUITE("text") {
  TEST_CASE("text wraps at spaces, keeps its indentation and leaves long words whole") {
    using Lines = std::vector<std::string>;
    CHECK(wrap_text("", 10) == Lines{""});
    CHECK(wrap_text("one two three", 8) == Lines{"one two", "three"});
    CHECK(wrap_text("  one two three", 8) == Lines{"  one", "  two", "  three"});
    CHECK(wrap_text("a\n\nb", 8) == Lines{"a", "", "b"});
    CHECK(wrap_text("see /a/long/path now", 6) == Lines{"see", "/a/long/path", "now"});
    CHECK(wrap_text("wide   gaps", 20) == Lines{"wide   gaps"});
    CHECK(wrap_text("äöü äöü", 7) == Lines{"äöü äöü"});
    CHECK(wrap_text("   ", 2) == Lines{"   "});
  }

  TEST_CASE("the nearest word is found for slips, not for other words") {
    const std::vector<std::string> words = {"redirects", "role", "tee"};
    CHECK(nearest_word("redirect", words) == "redirects");
    CHECK(nearest_word("rediercts", words) == "redirects");
    CHECK(nearest_word("roel", words) == "role");
    CHECK(nearest_word("te", words) == "tee");
    CHECK(nearest_word("epochs", words).empty());
    CHECK(nearest_word("", words).empty());
    CHECK(nearest_word(std::string(100'000, 'r'), words).empty());
  }

  TEST_CASE("the width is that of the terminal, or the given one where there is none") {
    const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
    REQUIRE(terminal >= 0);
    winsize size{};
    size.ws_col = 60;
    CHECK(::ioctl(terminal, TIOCSWINSZ, &size) == 0);
    CHECK(ddprun::terminal_columns(terminal, 100) == 60);
    ::close(terminal);
    CHECK(ddprun::terminal_columns(-1, 100) == 100);
  }
}
