// Where the kernel has put a worker's core dump.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace ddprun {

/// What the kernel puts into the name.
struct CoreFacts {
  pid_t pid = 0;
  int signal = 0;
  std::string program;           ///< path
  std::filesystem::path folder;  ///< the worker's
  std::string host;
};

/// The name that `pattern` (/proc/sys/kernel/core_pattern) gives; `uses_pid` is
/// /proc/sys/kernel/core_uses_pid. Nothing if the dump goes to a program or the name cannot be
/// known from outside (it has the time in it).
std::optional<std::filesystem::path> core_file_name(std::string_view pattern, bool uses_pid,
                                                    const CoreFacts& facts);

/// The file itself, if it exists.
std::optional<std::filesystem::path> find_core_file(const CoreFacts& facts);

}  // namespace ddprun
