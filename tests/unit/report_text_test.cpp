// Parts of reports: ranks, signals, exit codes, wrapped text.
#include "launcher/report/console_sink.hpp"
#include "launcher/report/event_text.hpp"
#include "launcher/report/exit_code.hpp"
#include "rendezvous/base/signal_name.hpp"
#include "rendezvous/base/text.hpp"
#include "tests/support/ended_workers.hpp"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <csignal>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace report_text_test {

using namespace ddprun;
using namespace ddprun::test;

TEST_SUITE("event text") {
  TEST_CASE("event text: ranks are abbreviated as ranges") {
    CHECK(format_ranks({}) == "");
    CHECK(format_ranks({3}) == "3");
    CHECK(format_ranks({4, 3}) == "3, 4");
    CHECK(format_ranks({0, 2, 3, 4, 9}) == "0, 2-4, 9");
    CHECK(ranks_phrase({3}) == "rank 3");
    CHECK(ranks_phrase({3, 4}) == "ranks 3, 4");
  }

  TEST_CASE("event text: a worker that could not be killed is reported like a running one") {
    WorkerExited exited;
    exited.rank = 3;
    exited.pid = 7;
    exited.exit_code = 255;
    exited.was_stopped = true;
    exited.still_running = "65 s after SIGKILL: state D (uninterruptible sleep) in read of /a";
    const auto line = line_for(exited);
    CHECK(line.level == LogLevel::error);
    CHECK(line.message == "rank 3 (pid 7) is still running " + *exited.still_running);
    CHECK(end_of(exited) == "still running " + *exited.still_running);
    // Independent of code and description.
    exited.exit_code = 0;
    exited.still_running = "";
    CHECK(exited.failed());
    CHECK(line_for(exited).level == LogLevel::error);
  }

  TEST_CASE("event text: the message about a hang names the ranks and the reaction") {
    HangDetected hang{.attempt = 1, .seconds = 5, .is_certain = true, .ranks = {{3, "is a"}}};
    CHECK(line_for(hang).message == "rank 3 hangs (no progress for 5.00 s): is a");
    hang.lacks_restarts = true;
    CHECK(line_for(hang).message ==
          "rank 3 hangs (no progress for 5.00 s): is a; no restarts are left (--max_restarts), so "
          "the workers keep running");
    hang.lacks_restarts = false;
    hang.action = OnHang::restart;
    hang.ranks.push_back({4, "is b"});
    CHECK(line_for(hang).message ==
          "ranks 3, 4 hang (no progress for 5.00 s): rank 3 is a, rank 4 is b; restarting the "
          "workers");
    hang.ranks.back().doing = "is a";
    CHECK(line_for(hang).message ==
          "ranks 3, 4 hang (no progress for 5.00 s): each is a; restarting the workers");
    hang = {.attempt = 1, .seconds = 300, .action = OnHang::report};
    CHECK(line_for(hang).message ==
          "the workers may hang (no progress for 300.0 s): no late rank found on this node");
    hang.ranks = {{3, "is a"}};
    hang.action = OnHang::stop;
    CHECK(line_for(hang).message ==
          "rank 3 may hang (no progress for 300.0 s): is a; ending the run");
    CHECK(line_for(HangEnded{.attempt = 1, .seconds = 42}).message ==
          "the workers have continued after 42.0 s");
    hang.connections = {{3, "10.0.0.2:4711", std::chrono::milliseconds(12'340), 5}};
    CHECK(line_for(hang).message ==
          "rank 3 may hang (no progress for 300.0 s): is a; rank 3 has had no acknowledgement from "
          "10.0.0.2:4711 for 12.3 s (5 retransmissions); ending the run");
    hang.connections.clear();
    hang.node = "b";
    CHECK(line_for(hang).message ==
          "rank 3 on node b may hang (no progress for 300.0 s): is a; ending the run");
    CHECK(line_for(HangEnded{.attempt = 1, .node = "b", .seconds = 42}).message ==
          "the workers on node b have continued after 42.0 s");
  }

  TEST_CASE("event text: a slow rank is named with its factor and how it spends its time") {
    SlowRankDetected slow{.attempt = 1, .rank = 3, .factor = 1.314, .seconds = 10};
    CHECK(line_for(slow).message ==
          "rank 3 is slow: takes 1.31 times as long between collectives as the median rank, for "
          "10.0 s");
    slow.doing = "computes";
    CHECK(line_for(slow).message ==
          "rank 3 is slow: takes 1.31 times as long between collectives as the median rank, for "
          "10.0 s; computes");
    slow.factor = 1000;
    CHECK(line_for(slow).message.find("takes more than 100 times as long") != std::string::npos);
    CHECK(line_for(SlowRankRecovered{1, 3}).message == "rank 3 is as fast as the others again");
    CHECK(line_for(SlowRankRecovered{1, 3, "b"}).message ==
          "rank 3 on node b is as fast as the others again");
  }

  TEST_CASE("event text: a slow link is named by the nodes at its ends") {
    const SlowRankDetected slow{.attempt = 1,
                                .rank = 3,
                                .factor = 9.94,
                                .seconds = 16,
                                .doing = "sends 93 % of the time, at 11.9 MB/s",
                                .peer = "c"};
    CHECK(line_for(slow).message ==
          "the link to node c is slow: data takes 9.9 times as long as before, for 16.0 s; rank 3 "
          "sends 93 % of the time, at 11.9 MB/s");
    CHECK(line_for(SlowRankRecovered{1, 3, "b", "c"}).message ==
          "the link from node b to node c is as fast as usual again");
  }

  TEST_CASE("event text: the exit of a worker killed for a hang mentions the hang") {
    WorkerExited exited;
    exited.rank = 3;
    exited.pid = 7;
    exited.signal = SIGKILL;
    exited.hung = "stopped by a signal (state T)";
    CHECK(describe_failure(exited) == "rank 3 (pid 7) hung: stopped by a signal (state T)");
    exited.ran_seconds = 12;
    CHECK(line_for(exited).message ==
          "rank 3 (pid 7) hung after 12.0 s: stopped by a signal (state T)");
    CHECK(end_of(exited) == "SIGKILL after a hang: stopped by a signal (state T)");
  }

  TEST_CASE("event text: an unknown signal is shown by number") {
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
  TEST_CASE("exit code: codes match the table of the man page") {
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
        {RunResult::unfit, {}, 0, 3, 3},
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
  TEST_CASE("text: lines wrap at spaces with their indentation") {
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

  TEST_CASE("text: control characters and invalid UTF-8 are escaped") {
    const std::pair<std::string, std::string> table[] = {
        {"a\tb\nc", "a\tb\nc"},
        {"\x1b[2J\x7f\r", "\\x1b[2J\\x7f\\x0d"},
        {std::string(1, '\0'), "\\x00"},
        {"\u00a0\u00e9\u2588\ud7ff\ue000\U0010ffff", "\u00a0\u00e9\u2588\ud7ff\ue000\U0010ffff"},
        // U+0080 and U+009B, as UTF-8 and as single bytes.
        {"a\u0080\u009b2Jb", "a\\xc2\\x80\\xc2\\x9b2Jb"},
        {"\x80\x9b"
         "2J",
         "\\x80\\x9b2J"},
        // Truncated, overlong for ESC and for U+009B, surrogates, beyond U+10FFFF.
        {"\xc3|\xe2\x96|\xf0\x9f\x9a", "\\xc3|\\xe2\\x96|\\xf0\\x9f\\x9a"},
        {"\xc0\x9b\xe0\x80\x9b\xf0\x80\x82\x9b", "\\xc0\\x9b\\xe0\\x80\\x9b\\xf0\\x80\\x82\\x9b"},
        {"\xed\xa0\x80\xf4\x90\x80\x80\xff", "\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80\\xff"},
    };
    for (const auto& [text, expected] : table) CHECK(printable(text) == expected);
    CHECK(printable("").empty());
  }

  TEST_CASE("text: nearest_word() finds a word despite small typing errors only") {
    const std::vector<std::string> words = {"redirects", "role", "tee"};
    CHECK(nearest_word("redirect", words) == "redirects");
    CHECK(nearest_word("rediercts", words) == "redirects");
    CHECK(nearest_word("roel", words) == "role");
    CHECK(nearest_word("te", words) == "tee");
    CHECK(nearest_word("epochs", words).empty());
    CHECK(nearest_word("", words).empty());
    CHECK(nearest_word(std::string(100'000, 'r'), words).empty());
  }

  TEST_CASE("text: the width is that of the terminal or the default") {
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

}  // namespace report_text_test
