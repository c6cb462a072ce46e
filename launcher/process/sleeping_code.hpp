// Which library has put a process to sleep: how a process that retries in PyTorch is told from one
// that is loading, computing or waiting for anything else. Looks at the process from outside
// without stopping it. Any thread.
#pragma once

#include "launcher/stacks/native_stack.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun {

/// The file that holds the innermost code on a stack but for the C and C++ libraries; empty if
/// there is none. `stack` are its words, from the innermost on; `code` are the executable mappings.
std::string innermost_code(std::span<const std::uint64_t> stack, const std::vector<Mapping>& code);

/// The file whose code the first thread of a process sleeps in, by nanosleep(2) or
/// clock_nanosleep(2); empty if it does anything else, or if this user may not look into it.
std::string sleeping_code(pid_t pid);

/// Those of the processes that sleep in PyTorch, as between two attempts to connect to a store. Of
/// many processes only the first kSleepersLookedAtMax are looked at.
inline constexpr std::size_t kSleepersLookedAtMax = 4096;
std::vector<pid_t> sleeping_in_pytorch(const std::vector<pid_t>& processes);

}  // namespace ddprun
