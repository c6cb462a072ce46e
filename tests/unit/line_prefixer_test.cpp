#include "launcher/process/line_prefixer.hpp"

#include <doctest/doctest.h>

#include <random>

using ddprun::kConsoleLineBytesMax;
using ddprun::LastLines;
using ddprun::LinePrefixer;

TEST_SUITE("line prefixer") {
  TEST_CASE("only complete lines come out, each with the prefix") {
    LinePrefixer prefixer("[a0]:");
    CHECK(prefixer.take("one\ntwo\nthr") == "[a0]:one\n[a0]:two\n");
    CHECK(prefixer.has_partial_line());
    CHECK(prefixer.take("ee\n\n") == "[a0]:three\n[a0]:\n");
    CHECK_FALSE(prefixer.has_partial_line());
    CHECK(prefixer.take("").empty());
  }

  TEST_CASE("bytes that are no text pass unchanged") {
    LinePrefixer prefixer(">");
    const std::string bytes("\0\xff\xfe\x1b", 4);
    CHECK(prefixer.take(bytes + "\n") == ">" + bytes + "\n");
  }

  TEST_CASE("a flushed partial line is continued without a second prefix") {
    LinePrefixer prefixer(">");
    CHECK(prefixer.take("10%").empty());
    CHECK(prefixer.flush() == ">10%");
    CHECK(prefixer.is_inside_line());
    CHECK(prefixer.take(" 20%").empty());
    CHECK(prefixer.flush() == " 20%");
    CHECK(prefixer.take("\nnext\n") == "\n>next\n");
    CHECK_FALSE(prefixer.is_inside_line());
    CHECK(prefixer.flush().empty());
  }

  TEST_CASE("an interrupted line begins again with the prefix") {
    LinePrefixer prefixer(">");
    CHECK(prefixer.take("10%").empty());
    CHECK(prefixer.flush() == ">10%");
    prefixer.interrupt();
    CHECK(prefixer.take(" 20%\n") == "> 20%\n");
  }

  TEST_CASE("a carriage return within a line is followed by the prefix, one before a newline not") {
    LinePrefixer prefixer(">");
    CHECK(prefixer.take("1%\r2%\r\n") == ">1%\r>2%\r\n");
    CHECK(prefixer.take("3%\r").empty());
    CHECK(prefixer.flush() == ">3%\r");
    CHECK(prefixer.take("4%").empty());
    CHECK(prefixer.flush() == ">4%");
  }

  TEST_CASE("a line over the limit is broken") {
    LinePrefixer prefixer(">");
    const auto out = prefixer.take(std::string(2 * kConsoleLineBytesMax + 1, 'x'));
    const auto broken = ">" + std::string(kConsoleLineBytesMax, 'x') + "\n";
    CHECK(out == broken + broken);
    CHECK(prefixer.take("\n") == ">x\n");
  }

  TEST_CASE("a line of exactly the limit is not broken") {
    LinePrefixer prefixer(">");
    CHECK(prefixer.take(std::string(kConsoleLineBytesMax, 'x')).empty());
    CHECK(prefixer.take("\n") == ">" + std::string(kConsoleLineBytesMax, 'x') + "\n");
  }

  TEST_CASE("how the stream is cut into pieces makes no difference") {
    std::mt19937 random(7);
    std::string stream;
    for (int i = 0; i < 5000; ++i) stream += "ab\n\r"[random() % 4];
    LinePrefixer whole(">");
    const auto expected = whole.take(stream);
    LinePrefixer pieces(">");
    std::string out;
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t length = 1 + random() % 7;
      out += pieces.take(std::string_view(stream).substr(at, length));
      at += length;
    }
    CHECK(out == expected);
  }
}

TEST_SUITE("last lines") {
  TEST_CASE("the last twenty lines are kept, oldest first") {
    LastLines last;
    for (int i = 1; i <= 30; ++i) last.take(std::to_string(i) + "\n");
    last.take("unfinished");
    const auto lines = last.lines();
    REQUIRE(lines.size() == LastLines::kLinesMax);
    CHECK(lines.front() == "12");
    CHECK(lines.back() == "unfinished");
  }

  TEST_CASE("long lines are kept from their end, within the bound") {
    LastLines last;
    last.take(std::string(3 * LastLines::kBytesMax, 'a') + "z\n");
    last.take("b\n");
    const auto lines = last.lines();
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].size() == LastLines::kBytesMax - 3);
    CHECK(lines[0].back() == 'z');
    CHECK(lines[1] == "b");
  }

  TEST_CASE("nothing gives nothing, an empty line is a line") {
    LastLines last;
    CHECK(last.lines().empty());
    last.take("\n");
    CHECK(last.lines() == std::vector<std::string>{""});
  }
}
