// Separates an agent's own lines from the output of its workers in the same stream.
#include "launcher/report/agent_line.hpp"

#include "launcher/ssh/final_reports.hpp"
#include "launcher/ssh/repeated_lines.hpp"

#include <doctest/doctest.h>

namespace agent_line_test {

using namespace ddprun;
using namespace ddprun::ssh;

namespace {

using Kind = AgentLine::Kind;
using Piece = AgentLineReader::Piece;

const std::string kMark =
    "\x1e"
    "0123";

const AgentLine kLine = {.kind = Kind::line, .text = "12:00 node a: ready", .key = "ready"};

/// Returns the result for bytes in pieces of this size; pieces of others are joined.
std::vector<Piece> read(const std::string& bytes, std::size_t size) {
  AgentLineReader reader(kMark);
  std::vector<Piece> all;
  const auto add = [&](const Piece& piece) {
    if (!piece.is_own && !all.empty() && !all.back().is_own) {
      all.back().bytes += piece.bytes;
    } else {
      all.push_back(piece);
    }
  };
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    for (const auto& piece : reader.take(std::string_view(bytes).substr(at, size))) add(piece);
  }
  if (const auto rest = reader.finish(); !rest.empty()) add({.bytes = rest});
  return all;
}

}  // namespace

TEST_SUITE("agent line") {
  TEST_CASE("agent line: marked lines are separated from output for any size of reads") {
    const AgentLine refusal = {.kind = Kind::refusal, .text = "x: no such file"};
    const auto bytes = "one\ntwo" + std::string("\n") + marked(kMark, kLine) + "three\n" +
                       marked(kMark, refusal) + marked(kMark, kLine) +
                       "\x1e"
                       "012x\nend";
    const std::vector<Piece> expected = {{.bytes = "one\ntwo\n"},
                                         {.is_own = true, .line = kLine},
                                         {.bytes = "three\n"},
                                         {.is_own = true, .line = refusal},
                                         {.is_own = true, .line = kLine},
                                         {.bytes = "\x1e"
                                                   "012x\nend"}};
    for (const std::size_t size : {1, 2, 3, 5, 7, 1000}) CHECK(read(bytes, size) == expected);
  }

  TEST_CASE("agent line: a marked line is recognised after an unterminated line") {
    const AgentLine exit = {.kind = Kind::agent_exit, .text = "-9"};
    for (const std::size_t size : {1, 2, 3, 5, 7, 1000}) {
      CHECK(read("hal" + marked(kMark, exit) + "x\n", size) ==
            std::vector<Piece>{{.bytes = "hal"}, {.is_own = true, .line = exit}, {.bytes = "x\n"}});
    }
  }

  TEST_CASE("agent line: a line with a wrong mark is treated like worker output") {
    const std::string text =
        "\x1e"
        "9999Lno\n";
    CHECK(read(text, 3) == std::vector<Piece>{{.bytes = text}});
  }

  TEST_CASE("agent line: an incomplete marked line is returned when the stream ends") {
    CHECK(read(kMark.substr(0, 3), 1) == std::vector<Piece>{{.bytes = kMark.substr(0, 3)}});
    CHECK(read(kMark + "Lhalf", 2) == std::vector<Piece>{{.bytes = kMark + "Lhalf"}});
  }

  TEST_CASE("agent line: a too long marked line is passed through like worker output") {
    AgentLineReader reader(kMark);
    const auto pieces = reader.take(kMark + std::string(kOwnLineBytesMax, 'x'));
    REQUIRE(pieces.size() == 1);
    CHECK_FALSE(pieces[0].is_own);
    CHECK(reader.take("y\n" + marked(kMark, kLine)).back().line == kLine);
  }

  TEST_CASE("agent line: control characters in an agent's line are escaped") {
    const auto bytes = kMark + "L12:00 \x1b]0;title\a\u009b2J\xff\n";
    const AgentLine expected = {.text = "12:00 \\x1b]0;title\\x07\\xc2\\x9b2J\\xff"};
    CHECK(read(bytes, 5) == std::vector<Piece>{{.is_own = true, .line = expected}});
  }

  TEST_CASE("agent line: a report arrives in marked lines with a marked end") {
    const auto pieces = read(marked_report(kMark, "a\n\nb\n"), 4);
    REQUIRE(pieces.size() == 4);
    CHECK(pieces[1].line == AgentLine{.kind = Kind::report});
    CHECK(pieces[2].line == AgentLine{.kind = Kind::report, .text = "b"});
    CHECK(pieces[3].line == AgentLine{.kind = Kind::report_end});
  }

  TEST_CASE("agent line: without a mark all lines are treated like worker output") {
    AgentLineReader reader("");
    CHECK(reader.take("a\nb") == std::vector<Piece>{{.bytes = "a\nb"}});
  }
}

TEST_SUITE("repeated lines") {
  TEST_CASE("repeated lines: the same line from another node is hidden but a repetition is shown") {
    RepeatedLines lines;
    CHECK(lines.is_new(0, "waiting"));
    CHECK_FALSE(lines.is_new(1, "waiting"));
    CHECK(lines.is_new(1, "ready"));
    CHECK(lines.is_new(1, "waiting"));
    CHECK_FALSE(lines.is_new(0, "waiting"));
    CHECK(lines.is_new(0, "waiting"));
  }

  TEST_CASE("repeated lines: the number of remembered texts is bounded") {
    constexpr std::size_t kTexts = 16;
    const std::string large(kRepeatedBytesMax / kTexts - 2 * kRepeatedEntryBytes, 'x');
    RepeatedLines lines;
    CHECK(lines.is_new(0, "first"));
    for (std::size_t i = 1; i < kTexts; ++i) CHECK(lines.is_new(0, large + std::to_string(i)));
    CHECK_FALSE(lines.is_new(1, "first"));
    CHECK(lines.is_new(0, large));
    CHECK(lines.is_new(1, "first"));
  }

  TEST_CASE("repeated lines: the number of remembered nodes per text is bounded") {
    RepeatedLines lines;
    CHECK(lines.is_new(0, "first"));
    bool is_remembered = true;
    for (std::uint32_t node = 1; is_remembered && node < kRepeatedBytesMax; ++node) {
      is_remembered = !lines.is_new(node, "first");
    }
    CHECK_FALSE(is_remembered);
  }
}

TEST_SUITE("final reports of nodes") {
  using Reports = std::vector<std::pair<std::uint32_t, std::string>>;

  TEST_CASE("final reports: equal reports of several nodes are kept once") {
    FinalReports reports;
    for (const std::uint32_t node : {2, 0, 1}) {
      reports.add_line(node, "FAILED");
      reports.add_line(node, node == 1 ? "why" : "");
    }
    CHECK(reports.take().empty());
    for (const std::uint32_t node : {2, 0, 1}) reports.end(node);
    CHECK(reports.take() == Reports{{2, "FAILED\n\n"}, {1, "FAILED\nwhy\n"}});
  }

  TEST_CASE("final reports: only the first report of a node is kept") {
    FinalReports reports;
    reports.add_line(0, "first");
    reports.end(0);
    reports.add_line(0, "second");
    reports.end(0);
    CHECK(reports.take() == Reports{{0, "first\n"}});
  }

  TEST_CASE("final reports: a report is cut at its size limit") {
    const std::string line(kFinalReportBytesMax / 4 - 1, 'x');
    FinalReports reports;
    for (int i = 0; i < 4; ++i) reports.add_line(0, line);
    reports.end(0);
    for (int i = 0; i < 10; ++i) reports.add_line(1, i == 3 ? line + "x" : line);
    reports.end(1);
    const auto taken = reports.take();
    REQUIRE(taken.size() == 2);
    CHECK(taken[0].second.size() == kFinalReportBytesMax);
    CHECK(taken[1].second ==
          std::string(taken[0].second, 0, 3 * line.size() + 3) + "... (cut off)\n");
  }

  TEST_CASE("final reports: all reports together are cut at a common size limit") {
    const std::string line(kFinalReportBytesMax / 2, 'x');
    constexpr std::uint32_t kNodes = 3 * kFinalReportsBytesMax / kFinalReportBytesMax;
    FinalReports reports;
    for (std::uint32_t node = 0; node < kNodes; ++node) {
      reports.add_line(node, line);
      reports.add_line(node, "of node " + std::to_string(node));
      reports.end(node);
    }
    const auto taken = reports.take();
    CHECK(taken.size() == kNodes);
    std::size_t bytes = 0;
    for (const auto& [node, text] : taken) bytes += text.size();
    CHECK(bytes < kFinalReportsBytesMax + kNodes * 64);
    CHECK(taken.front().second == line + "\nof node 0\n");
    CHECK(taken.back().second == "... (cut off)\n");
  }

  TEST_CASE("final reports: equal reports are kept once even beyond the common limit") {
    const std::string line(kFinalReportBytesMax / 2, 'x');
    constexpr std::uint32_t kNodes = 3 * kFinalReportsBytesMax / kFinalReportBytesMax;
    FinalReports reports;
    for (std::uint32_t node = 0; node < kNodes; ++node) reports.add_line(node, line);
    for (std::uint32_t node = 0; node < kNodes; ++node) reports.add_line(node, "why");
    for (std::uint32_t node = 0; node < kNodes; ++node) reports.end(node);
    CHECK(reports.take() == Reports{{0, line + "\nwhy\n"}});
    reports.add_line(kNodes, "again");
    reports.end(kNodes);
    CHECK(reports.take() == Reports{{kNodes, "again\n"}});
  }
}

}  // namespace agent_line_test
