// How an agent that was started by another ddprun marks the lines that it says itself, so that the
// other one can tell them from its workers' and show what all nodes say alike once. Only the two
// know the mark, so no worker's line can be taken for one of them. Pure: bytes in, lines out.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// A marked line longer than this is treated as a worker's: far beyond what an agent says.
inline constexpr std::size_t kOwnLineBytesMax = 1U << 20;

struct OwnWords {
  /// The letters are those in the text.
  enum class Kind : char {
    line = 'L',        ///< of the console; `key` is what it says without time and node
    report = 'R',      ///< a line of the final report
    report_end = 'E',  ///< behind the last of these
    refusal = 'U',     ///< why it starts nothing
    agent_exit = 'X',  ///< its exit code, or minus the signal that killed it, by its supervisor
  };
  Kind kind = Kind::line;
  std::string text{};  ///< without a newline; one that was read is printable()
  std::string key{};

  bool operator==(const OwnWords&) const = default;
};

/// The line to be written, with its newline. What the words hold is printable text.
std::string marked(const std::string& mark, const OwnWords& words);

/// A report of many lines, and its end.
std::string marked_report(const std::string& mark, const std::string& report);

/// Sorts one stream of an agent.
class OwnWordsReader {
 public:
  struct Piece {
    bool is_own = false;
    std::string bytes{};  ///< of others, whole lines or not
    OwnWords words{};     ///< of the agent

    bool operator==(const Piece&) const = default;
  };

  explicit OwnWordsReader(std::string mark) : mark_(std::move(mark)) {}

  /// A mark counts in the middle of a line, too: the process that wrote its beginning may have been
  /// killed.
  std::vector<Piece> take(std::string_view bytes);

  /// Returns the bytes that were held back because they might begin a marked line.
  std::string finish();

 private:
  std::string mark_;
  std::string held_;
};

}  // namespace ddprun
