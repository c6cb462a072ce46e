// Writes events as lines on standard error: time, level, node_rank, attempt and message; and the
// final report of a run that did not succeed. A healthy run prints one or two lines.
// Single-threaded.
#pragma once

#include "launcher/report/event.hpp"
#include "launcher/report/event_text.hpp"
#include <ddprun/log.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

struct ConsoleSettings {
  LogLevel level = LogLevel::info;  ///< minimum level of the lines
  std::string node = "0";           ///< rank or name of this node
  int columns = 80;                 ///< width of the final report
  bool is_colored = false;          ///< levels in color
  /// Node that prints the report of a failed run; empty: this node.
  std::string reporter{};
  /// Prefix of each line for a parent ddprun, which inserts the node's name; see agent_line.hpp.
  std::string mark{};
};

/// Receives whole lines, each ending with a newline. Must not throw.
using TextWriter = std::function<void(std::string_view)>;

class ConsoleSink : public EventSink {
 public:
  /// `write` outputs the lines. It allows them to share the workers' path to the console and to
  /// avoid blocking on a stopped terminal.
  ConsoleSink(const ConsoleSettings& settings, TextWriter write);
  ~ConsoleSink() override;

  void take(const Event& event, std::chrono::system_clock::time_point when) override;

 private:
  class Formatter;

  void write_end(const RunFinished& finished, std::chrono::system_clock::time_point when);
  void write_line(const EventLine& line, std::chrono::system_clock::time_point when);
  void write_stacks(const StacksTaken& stacks);
  std::string report(const RunFinished& finished) const;

  ConsoleSettings settings_;
  TextWriter write_;
  std::unique_ptr<Formatter> formatter_;
  std::string program_;
  std::set<int> stopped_;            ///< ranks of the last attempt that ddprun stopped
  std::vector<StacksTaken> stacks_;  ///< stacks of the last attempt
};

/// Returns the level for a value of LOGLEVEL in any case ("DEBUG", "warning", ...); nullopt if
/// unknown. Python's CRITICAL maps to error.
std::optional<LogLevel> parse_log_level(std::string_view name);

/// Width of the report if standard error is not a terminal.
inline constexpr int kColumnsWithoutTerminal = 100;

/// Returns the columns of the terminal `fd`, or `if_none` if it is not a terminal.
int terminal_columns(int fd, int if_none);

}  // namespace ddprun
