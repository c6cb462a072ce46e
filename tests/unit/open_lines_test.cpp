#include "launcher/output/open_lines.hpp"

#include "tests/support/tiny_terminal.hpp"

#include <doctest/doctest.h>

namespace open_lines_test {

using ddprun::fit_to_row;
using ddprun::OpenLines;
using ddprun::TerminalSize;
using ddprun::test::TinyTerminal;

namespace {

using Rows = std::vector<std::string>;

constexpr TerminalSize kSize{.columns = 20, .rows = 10};
// Owners are identified by their addresses only.
constexpr int kOwners[8] = {};

}  // namespace

TEST_SUITE("open lines") {
  TEST_CASE("open lines: each owner has one row that is overwritten") {
    OpenLines lines;
    TinyTerminal terminal(kSize.columns);
    CHECK(lines.set(&kOwners[0], "[0]: 10%"));
    CHECK(lines.set(&kOwners[1], "[1]: 15%"));
    terminal.take(lines.draw(kSize));
    CHECK(terminal.rows() == Rows{"[0]: 10%", "[1]: 15%"});
    CHECK(lines.set(&kOwners[0], "[0]: 9%"));
    terminal.take(lines.draw(kSize));
    CHECK(terminal.rows() == Rows{"[0]: 9%", "[1]: 15%"});
    CHECK(lines.set(&kOwners[2], "[2]: 1%"));
    CHECK(lines.set(&kOwners[0], ""));
    terminal.take(lines.draw(kSize));
    CHECK(terminal.rows() == Rows{"[1]: 15%", "[2]: 1%"});
    CHECK(lines.set(&kOwners[1], ""));
    CHECK(lines.set(&kOwners[2], ""));
    CHECK(lines.is_empty());
    terminal.take(lines.draw(kSize));
    CHECK(terminal.rows().empty());
    CHECK(lines.draw(kSize).empty());
  }

  TEST_CASE("open lines: output that completes a line is printed after the prompt") {
    OpenLines lines;
    TinyTerminal terminal(kSize.columns);
    lines.set(&kOwners[0], "[0]: (Pdb) ");
    terminal.take(lines.draw(kSize));
    terminal.take("p 6*7\n");  // the terminal's echo
    CHECK(lines.complete(&kOwners[0], "[0]: (Pdb) 42\n") == "42\n");
    terminal.take("42\n");
    lines.set(&kOwners[0], "[0]: (Pdb) ");
    terminal.take(lines.draw(kSize));
    CHECK(terminal.rows() == Rows{"[0]: (Pdb) p 6*7", "42", "[0]: (Pdb)"});
  }

  TEST_CASE("open lines: a line continues in place only if its prompt is the sole row") {
    OpenLines lines;
    CHECK_FALSE(lines.complete(&kOwners[0], "text\n"));
    lines.set(&kOwners[0], "prompt");
    CHECK_FALSE(lines.complete(&kOwners[0], "prompt 42\n"));  // not drawn yet
    lines.draw(kSize);
    CHECK_FALSE(lines.complete(&kOwners[1], "prompt 42\n"));
    CHECK_FALSE(lines.complete(&kOwners[0], "another\n"));
    lines.set(&kOwners[1], "bar");
    CHECK_FALSE(lines.complete(&kOwners[0], "prompt 42\n"));
    lines.draw(kSize);
    CHECK_FALSE(lines.complete(&kOwners[0], "prompt 42\n"));
    OpenLines cut;
    const std::string too_long(40, 'x');
    cut.set(&kOwners[0], too_long);
    cut.draw(kSize);
    CHECK_FALSE(cut.complete(&kOwners[0], too_long + "\n"));
  }

  TEST_CASE("open lines: complete lines are printed above open ones") {
    OpenLines lines;
    TinyTerminal terminal(kSize.columns);
    lines.set(&kOwners[0], "[0]: 10%");
    lines.set(&kOwners[1], "[1]: 15%");
    terminal.take(lines.draw(kSize));
    terminal.take(lines.erase());
    terminal.take("one\ntwo\n");
    terminal.take(lines.draw(kSize));
    CHECK(terminal.rows() == Rows{"one", "two", "[0]: 10%", "[1]: 15%"});
    CHECK_FALSE(lines.erase().empty());
    CHECK(lines.erase().empty());
  }

  TEST_CASE("open lines: set() returns whether the row has changed") {
    OpenLines lines;
    CHECK_FALSE(lines.set(&kOwners[0], ""));
    CHECK(lines.set(&kOwners[0], "a"));
    CHECK_FALSE(lines.set(&kOwners[0], "a"));
  }

  TEST_CASE("open lines: a row does not reach the last column") {
    OpenLines lines;
    TinyTerminal terminal(kSize.columns);
    for (int i = 0; i < 3; ++i) {
      lines.set(&kOwners[0], std::string(50, static_cast<char>('a' + i)));
      terminal.take(lines.draw(kSize));
    }
    CHECK(terminal.rows() == Rows{std::string(19, 'c')});
  }

  TEST_CASE("open lines: at most half of the rows are used and the last one counts others") {
    OpenLines lines;
    TinyTerminal terminal(kSize.columns);
    for (const auto& owner : kOwners) lines.set(&owner, "x");
    terminal.take(lines.draw(kSize));
    CHECK(terminal.rows() == Rows{"x", "x", "x", "x", "(4 more)"});
    for (int i = 0; i < 3; ++i) lines.set(&kOwners[i], "");
    terminal.take(lines.draw(kSize));
    CHECK(terminal.rows() == Rows{"x", "x", "x", "x", "x"});
    terminal.take(lines.draw({.columns = 1, .rows = 1}));
    CHECK(terminal.rows() == Rows{"("});
  }

  TEST_CASE("open lines: rows from before a suspension are not overwritten") {
    OpenLines lines;
    TinyTerminal terminal(kSize.columns);
    lines.set(&kOwners[0], "10%");
    terminal.take(lines.draw(kSize));
    terminal.take(lines.leave());
    terminal.take("$ fg\n");
    terminal.take(lines.draw(kSize));
    CHECK(terminal.rows() == Rows{"10%", "$ fg", "10%"});
    lines.set(&kOwners[0], "");
    terminal.take(lines.draw(kSize));
    CHECK(terminal.rows() == Rows{"10%", "$ fg"});
    CHECK(lines.leave().empty());
  }
}

TEST_SUITE("open line") {
  TEST_CASE("open line: a long line is cut between characters") {
    CHECK(fit_to_row("\xe2\x96\x88\xe2\x96\x88\xe2\x96\x88|", 2) == "\xe2\x96\x88\xe2\x96\x88");
    CHECK(fit_to_row("abc", 3) == "abc");
    CHECK(fit_to_row("abcd", 3) == "abc");
    CHECK(fit_to_row("", 3).empty());
  }

  TEST_CASE("open line: wide characters count as two columns and are not split") {
    CHECK(fit_to_row("\u65e5\u672c\u8a9e", 6) == "\u65e5\u672c\u8a9e");
    CHECK(fit_to_row("\u65e5\u672c\u8a9e", 5) == "\u65e5\u672c");
    CHECK(fit_to_row("a\uac00", 2) == "a");
    CHECK(fit_to_row("\U0001f680ab", 3) == "\U0001f680a");
    CHECK(fit_to_row("\u00e9\u2588\u2501", 3) == "\u00e9\u2588\u2501");
  }

  TEST_CASE("open line: each invalid byte is shown in one column") {
    CHECK(fit_to_row("\xff\xc3|\xe6\x97", 3) == "??|");
    CHECK(fit_to_row("\x9b\x80\x80", 2) == "??");
    CHECK(fit_to_row("\xe6", 2) == "?");
    CHECK(fit_to_row("\xe0\x80\x9b", 80) == "???");
  }

  TEST_CASE("open line: colours use no columns and end with the line") {
    CHECK(fit_to_row("\x1b[1;31mabc\x1b[0md", 3) == "\x1b[1;31mabc\x1b[0m\x1b[0m");
  }

  TEST_CASE("open line: cursor movements are removed") {
    CHECK(fit_to_row("a\x1b[Ab\x1b[2Kc\b\ad\te\x1b(f\x1b[", 80) == "abcd ef");
    CHECK(fit_to_row("a\u009bAb", 80) == "aAb");
    CHECK(fit_to_row("a\x1b[1\vmb\x1bmc", 80) == "abc");
  }
}

}  // namespace open_lines_test
