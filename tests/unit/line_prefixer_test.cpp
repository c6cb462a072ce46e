#include "launcher/output/line_prefixer.hpp"

#include <doctest/doctest.h>

#include <ctime>
#include <random>

namespace line_prefixer_test {

using ddprun::kConsoleLineBytesMax;
using ddprun::kOpenLineBytesMax;
using ddprun::kPromptBytesMax;
using ddprun::LinePrefix;
using ddprun::LinePrefixer;

namespace {

// The time is used only by prefixes with a time stamp.
constexpr LinePrefixer::TimePoint kNow{};

}  // namespace

TEST_SUITE("line prefixer") {
  TEST_CASE("line prefixer: only complete lines are returned with the prefix") {
    LinePrefixer prefixer("[a0]:");
    CHECK(prefixer.take("one\ntwo\nthr", kNow) == "[a0]:one\n[a0]:two\n");
    CHECK(prefixer.has_unshown_text());
    CHECK(prefixer.open_line() == "[a0]:thr");
    CHECK(prefixer.take("ee\n\n", kNow) == "[a0]:three\n[a0]:\n");
    CHECK_FALSE(prefixer.has_unshown_text());
    CHECK(prefixer.open_line().empty());
    CHECK(prefixer.take("", kNow).empty());
  }

  TEST_CASE("line prefixer: binary bytes pass unchanged") {
    LinePrefixer prefixer(">");
    const std::string bytes("\0\xff\xfe\x1b", 4);
    CHECK(prefixer.take(bytes + "\n", kNow) == ">" + bytes + "\n");
  }

  TEST_CASE("line prefixer: colours are kept and cursor movements to other rows removed") {
    LinePrefixer prefixer(">");
    CHECK(prefixer.take("\x1b[1;31mred\x1b[0m\x1b[K\n", kNow) == ">\x1b[1;31mred\x1b[0m\x1b[K\n");
    CHECK(prefixer.take("\r 10%\x1b[A\n", kNow) == "> 10%\n");
    CHECK(prefixer.take("a\x1b[2Ab\x1b[Jc\x1b[1;1Hd\x1b"
                        "Ae\x1b[\n",
                        kNow) ==
          ">abcd\x1b"
          "Ae\x1b[\n");
    CHECK(prefixer.take("up\x1b[A", kNow).empty());
    CHECK(prefixer.flush() == ">up");
  }

  TEST_CASE("line prefixer: an empty prefix leaves lines unchanged") {
    LinePrefixer prefixer("");
    CHECK(prefixer.take("one\n\ntwo\n", kNow) == "one\n\ntwo\n");
  }

  TEST_CASE("line prefixer: a flushed partial line continues without a second prefix") {
    LinePrefixer prefixer(">");
    CHECK(prefixer.take("10%", kNow).empty());
    CHECK(prefixer.flush() == ">10%");
    CHECK(prefixer.is_inside_line());
    CHECK_FALSE(prefixer.has_unshown_text());
    CHECK(prefixer.take(" 20%", kNow).empty());
    CHECK(prefixer.flush() == " 20%");
    CHECK(prefixer.take("\nnext\n", kNow) == "\n>next\n");
    CHECK_FALSE(prefixer.is_inside_line());
    CHECK(prefixer.flush().empty());
  }

  TEST_CASE("line prefixer: flushed bytes count towards the limit of their line") {
    LinePrefixer prefixer(">");
    const std::string half(kConsoleLineBytesMax / 2, 'x');
    CHECK(prefixer.take(half, kNow).empty());
    CHECK(prefixer.flush() == ">" + half);
    CHECK(prefixer.take(half, kNow).empty());
    CHECK(prefixer.flush() == half);
    CHECK(prefixer.take("y\n", kNow) == "\n>y\n");
    CHECK(prefixer.take(half, kNow).empty());
    CHECK(prefixer.flush() == ">" + half);
    prefixer.interrupt();
    CHECK(prefixer.take(half + half + "\n", kNow) == ">" + half + half + "\n");
  }

  TEST_CASE("line prefixer: a line continued after an interruption gets the prefix again") {
    LinePrefixer prefixer(">");
    CHECK(prefixer.take("10%", kNow).empty());
    CHECK(prefixer.flush() == ">10%");
    prefixer.interrupt();
    CHECK(prefixer.take(" 20%\n", kNow) == "> 20%\n");
  }

  TEST_CASE("line prefixer: the end of the stream completes an incomplete line") {
    LinePrefixer prompt(">");
    CHECK(prompt.take("really? ", kNow).empty());
    CHECK(prompt.finish() == ">really? \n");
    CHECK(prompt.finish().empty());
    CHECK(prompt.take("really? ", kNow).empty());
    CHECK(prompt.flush() == ">really? ");
    CHECK(prompt.finish() == "\n");
    CHECK(prompt.take("really? ", kNow).empty());
    CHECK(prompt.flush() == ">really? ");
    prompt.interrupt();
    CHECK(prompt.finish().empty());
  }

  TEST_CASE("line prefixer: a line over the limit is split") {
    LinePrefixer prefixer(">");
    const auto out = prefixer.take(std::string(2 * kConsoleLineBytesMax + 1, 'x'), kNow);
    const auto broken = ">" + std::string(kConsoleLineBytesMax, 'x') + "\n";
    CHECK(out == broken + broken);
    CHECK(prefixer.take("\n", kNow) == ">x\n");
  }

  TEST_CASE("line prefixer: open_line() returns the beginning of a long line") {
    LinePrefixer prefixer(">");
    CHECK(prefixer.take(std::string(2 * kOpenLineBytesMax, 'x'), kNow).empty());
    CHECK(prefixer.open_line() == ">" + std::string(kOpenLineBytesMax, 'x'));
  }

  TEST_CASE("line prefixer: is_long() is true for unshown text longer than a prompt") {
    LinePrefixer prefixer(">");
    CHECK(prefixer.take(std::string(kPromptBytesMax, 'x'), kNow).empty());
    CHECK_FALSE(prefixer.is_long());
    CHECK(prefixer.take("y", kNow).empty());
    CHECK(prefixer.is_long());
    prefixer.flush();
    CHECK(prefixer.take(std::string(kPromptBytesMax + 1, 'x'), kNow).empty());
    CHECK_FALSE(prefixer.is_long());
  }

  TEST_CASE("line prefixer: a line as long as the limit is not split") {
    LinePrefixer prefixer(">");
    CHECK(prefixer.take(std::string(kConsoleLineBytesMax, 'x'), kNow).empty());
    CHECK(prefixer.take("\n", kNow) == ">" + std::string(kConsoleLineBytesMax, 'x') + "\n");
  }

  TEST_CASE("line prefixer: the output is the same for any size of reads") {
    std::mt19937 random(7);
    std::string stream;
    for (int i = 0; i < 5000; ++i) stream += "ab\n\r"[random() % 4];
    LinePrefixer whole(">");
    auto expected = whole.take(stream, kNow);
    expected += whole.finish();
    LinePrefixer pieces(">");
    std::string out;
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t length = 1 + random() % 7;
      out += pieces.take(std::string_view(stream).substr(at, length), kNow);
      at += length;
    }
    out += pieces.finish();
    CHECK(out == expected);
  }
}

TEST_SUITE("verbatim output") {
  TEST_CASE("verbatim output: unchanged bytes are returned in whole lines where possible") {
    LinePrefixer prefixer("", LinePrefixer::Form::verbatim);
    CHECK(prefixer.take("one\r\n\r10%\r20%\ntwo", kNow) == "one\r\n\r10%\r20%\n");
    CHECK_FALSE(prefixer.is_inside_line());
    CHECK(prefixer.has_unshown_text());
    CHECK(prefixer.take(" and", kNow).empty());
    CHECK(prefixer.flush() == "two and");
    CHECK(prefixer.is_inside_line());
    CHECK_FALSE(prefixer.has_unshown_text());
    CHECK(prefixer.take(" three\nfour", kNow) == " three\n");
    CHECK_FALSE(prefixer.is_inside_line());
    CHECK(prefixer.finish() == "four");
    CHECK(prefixer.finish().empty());
  }

  TEST_CASE("verbatim output: an incomplete line is held back only up to the limit") {
    LinePrefixer prefixer("", LinePrefixer::Form::verbatim);
    const std::string most(kConsoleLineBytesMax, 'x');
    CHECK(prefixer.take(most, kNow).empty());
    CHECK(prefixer.take("y", kNow) == most + "y");
    CHECK(prefixer.is_inside_line());
    CHECK(prefixer.take("z\n", kNow) == "z\n");
  }
}

TEST_SUITE("progress bars") {
  TEST_CASE("progress bars: only the last state of a rewritten line is returned") {
    LinePrefixer prefixer(">");
    CHECK(prefixer.take("\r  0%\r 50%\r100%\ndone\n", kNow) == ">100%\n>done\n");
    CHECK(prefixer.take("1%\r2%\r\n", kNow) == ">2%\r\n");
  }

  TEST_CASE("progress bars: a line that ends in carriage return and newline is unchanged") {
    LinePrefixer prefixer(">");
    CHECK(prefixer.take("one\r\ntwo\r", kNow) == ">one\r\n");
    CHECK(prefixer.take("\n", kNow) == ">two\r\n");
    CHECK(prefixer.take("\r\r\n", kNow) == ">\r\n");
  }

  TEST_CASE("progress bars: open_line() returns the current state even after a return") {
    LinePrefixer prefixer(">");
    CHECK(prefixer.take("\r 10%", kNow).empty());
    CHECK(prefixer.is_rewritten());
    CHECK(prefixer.open_line() == "> 10%");
    CHECK(prefixer.take("\r", kNow).empty());
    CHECK(prefixer.open_line() == "> 10%");
    CHECK(prefixer.take(" 20%", kNow).empty());
    CHECK(prefixer.open_line() == "> 20%");
  }

  TEST_CASE("progress bars: a state is flushed once and like a complete line") {
    LinePrefixer prefixer(">");
    CHECK(prefixer.take("\r 10%", kNow).empty());
    CHECK(prefixer.flush() == "> 10%\n");
    CHECK_FALSE(prefixer.is_inside_line());
    CHECK_FALSE(prefixer.has_unshown_text());
    CHECK(prefixer.flush().empty());
    CHECK(prefixer.take("\r100%", kNow).empty());
    CHECK(prefixer.flush() == ">100%\n");
    CHECK(prefixer.take("\nnext\n", kNow) == ">next\n");
    CHECK(prefixer.take("\r 10%", kNow).empty());
    CHECK(prefixer.flush() == "> 10%\n");
    CHECK(prefixer.finish().empty());
  }

  TEST_CASE("progress bars: a bar that clears itself is not shown") {
    LinePrefixer prefixer(">");
    CHECK(prefixer.take("\r100%\r    \r", kNow).empty());
    CHECK_FALSE(prefixer.has_unshown_text());
    CHECK(prefixer.open_line().empty());
    CHECK(prefixer.take("text\n\r    \r", kNow) == ">text\n");
    CHECK(prefixer.finish().empty());
  }

  TEST_CASE("progress bars: a bar at the end of the stream is shown") {
    LinePrefixer prefixer(">");
    CHECK(prefixer.take("\r 10%\r", kNow).empty());
    CHECK(prefixer.finish() == "> 10%\n");
  }

  TEST_CASE("progress bars: a bar does not overwrite a flushed prompt") {
    LinePrefixer prefixer(">");
    CHECK(prefixer.take("loading", kNow).empty());
    CHECK(prefixer.flush() == ">loading");
    CHECK(prefixer.take("\r 10%", kNow) == "\n");
    CHECK(prefixer.take("\n", kNow) == "> 10%\n");
  }

  TEST_CASE("progress bars: a bar over the line limit is split") {
    LinePrefixer prefixer(">");
    const auto out = prefixer.take("\r" + std::string(kConsoleLineBytesMax + 1, 'x'), kNow);
    CHECK(out == ">" + std::string(kConsoleLineBytesMax, 'x') + "\n");
    CHECK(prefixer.open_line() == ">x");
  }
}

TEST_SUITE("time stamps") {
  using namespace std::chrono_literals;

  /// A local time in the format of the launcher's own lines.
  LinePrefixer::TimePoint local_time(int hour, int minute, int second,
                                     std::chrono::milliseconds fraction) {
    std::tm parts{};
    parts.tm_year = 2026 - 1900;
    parts.tm_mon = 10;
    parts.tm_mday = 21;
    parts.tm_hour = hour;
    parts.tm_min = minute;
    parts.tm_sec = second;
    parts.tm_isdst = -1;
    return std::chrono::system_clock::from_time_t(std::mktime(&parts)) + fraction;
  }

  LinePrefix stamped() {
    LinePrefix prefix;
    prefix.parts = {"", " 3|"};
    return prefix;
  }

  TEST_CASE("time stamps: a line has the time of its first byte") {
    LinePrefixer prefixer(stamped());
    CHECK(prefixer.take("on", local_time(5, 42, 34, 657ms)).empty());
    CHECK(prefixer.take("e\ntwo\n", local_time(5, 42, 35, 8ms)) ==
          "2026-11-21 05:42:34.657 3|one\n2026-11-21 05:42:35.008 3|two\n");
    CHECK(prefixer.take("three\n", local_time(23, 0, 0, 80ms)) ==
          "2026-11-21 23:00:00.080 3|three\n");
  }

  TEST_CASE("time stamps: a progress bar has the time of its current state") {
    LinePrefixer prefixer(stamped());
    CHECK(prefixer.take("\r10%", local_time(1, 0, 0, 0ms)).empty());
    CHECK(prefixer.take("\r20%", local_time(2, 0, 0, 0ms)).empty());
    CHECK(prefixer.take("\n", local_time(3, 0, 0, 0ms)) == "2026-11-21 02:00:00.000 3|20%\n");
  }

  TEST_CASE("time stamps: all stamps in one prefix are equal") {
    LinePrefix prefix;
    prefix.parts = {"a", "b", "c"};
    LinePrefixer prefixer(prefix);
    CHECK(prefixer.take("x\n", local_time(1, 2, 3, 4ms)) ==
          "a2026-11-21 01:02:03.004b2026-11-21 01:02:03.004cx\n");
  }
}

}  // namespace line_prefixer_test
