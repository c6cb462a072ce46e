// Events as lines on standard error: time, level, node_rank, attempt, message; and the final report
// when a run did not succeed. A healthy run prints one or two lines. One thread.
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
  LogLevel level = LogLevel::info;  ///< what is less serious is not shown
  std::string node = "0";           ///< rank or name of this node
  int columns = 80;                 ///< width of the final report
  bool is_terminal = true;          ///< false: lines that the report quotes stay whole
  bool is_colored = false;          ///< levels in color
  /// The node whose report of a failed run this one leaves out; empty: it prints its own.
  std::string reporter{};
  /// Before each line, for another ddprun, which adds the node's name; see own_words.hpp.
  std::string mark{};
};

/// Takes whole lines, each ending with a newline. Must not throw.
using TextWriter = std::function<void(std::string_view)>;

class ConsoleSink : public EventSink {
 public:
  /// `write` decides where the lines go, so that they can share the workers' way to the console
  /// and never block on a stopped terminal.
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
  std::vector<StacksTaken> stacks_;  ///< of the last attempt; on demand at an operator's pace
};

/// The level that LOGLEVEL names in any case ("DEBUG", "warning", ...); nothing if it names none.
/// Python's CRITICAL is error here.
std::optional<LogLevel> parse_log_level(std::string_view name);

/// For lines that nobody reads on a terminal.
inline constexpr int kColumnsWithoutTerminal = 100;

/// Columns of the terminal behind `fd`; `if_none` if it is not a terminal.
int terminal_columns(int fd, int if_none);

}  // namespace ddprun
