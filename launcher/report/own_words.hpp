// Marks the lines of an agent that was started by another ddprun, so that the parent can
// distinguish them from the workers' output, and show messages that are the same on all nodes once.
// Only the two processes know the mark, so workers cannot imitate such lines. Pure: bytes in, lines
// out.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Longer marked lines are treated as a worker's; far above the length of any line of an agent.
inline constexpr std::size_t kOwnLineBytesMax = 1U << 20;

struct OwnWords {
  /// The values are the letters in the encoding.
  enum class Kind : char {
    line = 'L',        ///< line of the console; `key` is the message without time and node
    report = 'R',      ///< a line of the final report
    report_end = 'E',  ///< end of the report
    refusal = 'U',     ///< why the agent does not start
    agent_exit = 'X',  ///< by the supervisor: the agent's exit code, or its negated signal
  };
  Kind kind = Kind::line;
  std::string text{};  ///< without newline; printable() if read
  std::string key{};

  bool operator==(const OwnWords&) const = default;
};

/// Returns the line to be written, with its newline. REQUIRES: `words` are printable.
std::string marked(const std::string& mark, const OwnWords& words);

/// Returns the lines of a report and its end.
std::string marked_report(const std::string& mark, const std::string& report);

/// Separates the lines of an agent from other bytes in one stream.
class OwnWordsReader {
 public:
  struct Piece {
    bool is_own = false;
    std::string bytes{};  ///< of other processes; not necessarily whole lines
    OwnWords words{};     ///< of the agent

    bool operator==(const Piece&) const = default;
  };

  explicit OwnWordsReader(std::string mark) : mark_(std::move(mark)) {}

  /// A mark is recognised within a line, too: the process that wrote the line's beginning may have
  /// been killed.
  std::vector<Piece> take(std::string_view bytes);

  /// Returns the remaining bytes, which were held back as the possible beginning of a marked line.
  std::string finish();

 private:
  std::string mark_;
  std::string held_;
};

}  // namespace ddprun
