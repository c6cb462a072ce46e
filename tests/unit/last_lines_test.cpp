#include "launcher/output/last_lines.hpp"

#include <doctest/doctest.h>

namespace last_lines_test {

using ddprun::LastLines;

TEST_SUITE("last lines") {
  TEST_CASE("last lines: the last twenty lines are kept in order") {
    LastLines last;
    for (int i = 1; i <= 30; ++i) last.take(std::to_string(i) + "\n");
    last.take("unfinished");
    const auto lines = last.lines();
    REQUIRE(lines.size() == LastLines::kLinesMax);
    CHECK(lines.front() == "12");
    CHECK(lines.back() == "unfinished");
  }

  TEST_CASE("last lines: only the end of a long line is kept") {
    LastLines last;
    last.take(std::string(3 * LastLines::kBytesMax, 'a') + "z\n");
    last.take("b\n");
    const auto lines = last.lines();
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].size() == LastLines::kBytesMax - 3);
    CHECK(lines[0].back() == 'z');
    CHECK(lines[1] == "b");
  }

  TEST_CASE("last lines: only empty lines at the end are omitted") {
    LastLines last;
    CHECK(last.lines().empty());
    last.take("\n");
    CHECK(last.lines().empty());
    last.take("a\n\nb\n\n\n");
    CHECK(last.lines() == std::vector<std::string>{"", "a", "", "b"});
  }

  TEST_CASE("last lines: only the last state of a progress bar is kept") {
    LastLines last;
    last.take("loading\r\n\r 10%\r 20%\nerror\n\r 1%\r");
    CHECK(last.lines() == std::vector<std::string>{"loading", " 20%", "error", " 1%"});
  }

  TEST_CASE("last lines: C frames of a Python fatal error do not displace Python frames") {
    LastLines last;
    last.take(
        "Fatal Python error: Segmentation fault\n\n"
        "Current thread 0x00007f7eadfa6200 [python3] (most recent call first):\n"
        "  File \"train.py\", line 3 in step\n\n"
        "Current thread's C stack trace (most recent call first):\n");
    for (int i = 0; i < 32; ++i) {
      last.take("  Binary file \"/usr/bin/python3\", at _Py_DumpStack+0x4a [0x499c1d]\n");
    }
    last.take("\nExtension modules: numpy._core._multiarray_umath (total: 1)\n");
    const auto lines = last.lines();
    REQUIRE(lines.size() == 4);
    CHECK(lines[0] == "Fatal Python error: Segmentation fault");
    CHECK(lines[3] == "  File \"train.py\", line 3 in step");
  }
}

}  // namespace last_lines_test
