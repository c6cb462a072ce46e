// How libraries speak: through a callable that the program hands them. Without one they do not
// print, but for ddprun::torch::init(), whose programs hand nothing over.
#pragma once

#include <functional>
#include <string_view>

namespace ddprun {

enum class LogLevel {
  debug,  ///< everything else
  info,   ///< at most a dozen lines per round
  warn,   ///< somebody should look; the run goes on
  error,  ///< the run cannot go on
};

/// Called with one line without its newline. Must not throw. An empty Log is silence.
using Log = std::function<void(LogLevel, std::string_view)>;

/// Calls `log` unless it is empty.
inline void write_log(const Log& log, LogLevel level, std::string_view line) {
  if (log) log(level, line);
}

}  // namespace ddprun
