// Marks the lines of an agent that another ddprun has started. The parent can then distinguish
// them from the workers' output, and show messages that are equal on all nodes only once. Only the
// two processes know the mark, so workers cannot imitate such lines. Pure: takes bytes, returns
// lines.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Maximum length of a marked line, far above that of the longest. Longer lines count as output of
/// a worker.
inline constexpr std::size_t kOwnLineBytesMax = 1U << 20;

struct AgentLine {
  /// Kinds of lines. The values are the letters that encode them.
  enum class Kind : char {
    line = 'L',        ///< console line; `key` is the message without time and node
    report = 'R',      ///< a line of the final report
    report_end = 'E',  ///< end of the report
    refusal = 'U',     ///< reason why the agent does not start
    agent_exit = 'X',  ///< from the supervisor: the agent's exit code or negated signal
  };
  Kind kind = Kind::line;
  std::string text{};  ///< text without newline; printable() when read
  std::string key{};

  bool operator==(const AgentLine&) const = default;
};

/// Returns the line to write, with a newline. REQUIRES: text and key are printable.
std::string marked(const std::string& mark, const AgentLine& line);

/// Returns the lines of a report and its end.
std::string marked_report(const std::string& mark, const std::string& report);

/// Separates the lines of an agent from other bytes in one stream.
class AgentLineReader {
 public:
  struct Piece {
    bool is_own = false;
    std::string bytes{};  ///< bytes of other processes, not always whole lines
    AgentLine line{};     ///< line of the agent

    bool operator==(const Piece&) const = default;
  };

  explicit AgentLineReader(std::string mark) : mark_(std::move(mark)) {}

  /// Returns the pieces of `bytes`. Also recognises marks within a line, because the process that
  /// wrote the beginning of the line may have been killed.
  std::vector<Piece> take(std::string_view bytes);

  /// Returns the remaining bytes, held back because a marked line may begin with them.
  std::string finish();

 private:
  std::string mark_;
  std::string held_;
};

}  // namespace ddprun
