// Logging of libraries: through a callable that the program provides. Without one they do not
// print, except ddprun::torch::init(), whose programs provide none.
#pragma once

#include <functional>
#include <string_view>

namespace ddprun {

enum class LogLevel {
  debug,  ///< everything else
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
