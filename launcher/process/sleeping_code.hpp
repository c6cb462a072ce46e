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

/// Returns the file that contains the innermost code on a stack, other than the C and C++
/// libraries; empty if no word points to such code. `stack` has the words of the stack, innermost
/// first. `code` has the executable mappings.
std::string innermost_code(std::span<const std::uint64_t> stack, const std::vector<Mapping>& code);

/// Returns the file in whose code the first thread of a process sleeps by nanosleep(2) or
/// clock_nanosleep(2); empty if it does anything else, or if this user may not inspect it.
std::string sleeping_code(pid_t pid);

/// Returns the descendants of a process that sleep in PyTorch, as between two attempts to connect
/// to a store. Inspects kInspectedMax processes at most, those nearest to it first.
inline constexpr std::size_t kInspectedMax = 4096;
std::vector<pid_t> sleeping_in_pytorch(pid_t ancestor);

}  // namespace ddprun
