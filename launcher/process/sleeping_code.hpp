// The library in whose code a process sleeps. It distinguishes a process that retries in PyTorch
// from one that loads, computes or waits for anything else. Inspects the process from outside
// without stopping it; blocks while the process holds its memory map locked. Any thread.
#pragma once

#include "launcher/stacks/native_stack.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun {

/// Returns the file with the innermost code on a stack, the C and C++ libraries excepted; empty if
/// there is none. `stack` are its words, innermost first; `code` are the executable mappings.
std::string innermost_code(std::span<const std::uint64_t> stack, const std::vector<Mapping>& code);

/// Returns the file in whose code the first thread of a process sleeps by nanosleep(2) or
/// clock_nanosleep(2); empty if it does anything else, or if this user may not inspect it.
std::string sleeping_code(pid_t pid);

/// Returns those of the processes that sleep in PyTorch, as between two attempts to connect to a
/// store. Inspects the first kInspectedMax processes only.
inline constexpr std::size_t kInspectedMax = 4096;
std::vector<pid_t> sleeping_in_pytorch(const std::vector<pid_t>& processes);

}  // namespace ddprun
