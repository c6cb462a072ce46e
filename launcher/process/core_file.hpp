// Finds the core dump of a worker.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace ddprun {

/// Values that the kernel substitutes in the name of a core dump.
struct CoreFacts {
  pid_t pid = 0;
  int signal = 0;
  std::string program;           ///< path
  std::filesystem::path folder;  ///< working directory of the worker
  std::string host;
};

/// Returns the name for `pattern` (/proc/sys/kernel/core_pattern); `uses_pid` is
/// /proc/sys/kernel/core_uses_pid. Returns nullopt if dumps are piped to a program, or if the name
/// contains values that are unknown here, such as the time.
std::optional<std::filesystem::path> core_file_name(std::string_view pattern, bool uses_pid,
                                                    const CoreFacts& facts);

/// Returns the core dump if it exists.
std::optional<std::filesystem::path> find_core_file(const CoreFacts& facts);

}  // namespace ddprun
