// Logging of libraries, through a callable that the program provides. Without a callable, libraries
// print nothing, except for ddprun::torch::init().
#pragma once

#include <functional>
#include <string_view>

namespace ddprun {

enum class LogLevel {
  debug,  ///< details
  info,   ///< at most a dozen lines per round
  warn,   ///< needs attention; the run continues
  error,  ///< the run cannot continue
};

/// Receives one line without its newline. Must not throw. An empty Log discards all lines.
using Log = std::function<void(LogLevel, std::string_view)>;

/// Calls `log` unless it is empty.
inline void write_log(const Log& log, LogLevel level, std::string_view line) {
  if (log) log(level, line);
}

}  // namespace ddprun
