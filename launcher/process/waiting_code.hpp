// Determines the library in whose code a process waits, which distinguishes a process that waits in
// a collective or retries a connection from one that loads data or waits for other reasons.
// Inspects the process without stopping it; blocks while the process holds the lock of its memory
// map. Thread-safe.
#pragma once

#include "launcher/stacks/native_stack.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace ddprun {

/// Returns the file whose code has probably made the system call at the end of a stack, except the
/// C and C++ libraries: the innermost one if it is a library for collectives, otherwise the one to
/// whose code most words point; empty if no word does. A stack also contains words of earlier
/// calls. `stack`: innermost return addresses, innermost first. `code`: executable mappings.
std::string calling_code(std::span<const std::uint64_t> stack, const std::vector<Mapping>& code);

/// Maximum number of bytes of a call instruction.
inline constexpr std::size_t kCallBytesMax = 7;
/// Bytes before an address.
using CodeBefore = std::span<const std::uint8_t, kCallBytesMax>;

/// Return true if code of that processor ends with a call instruction, so that the address after it
/// can be a return address.
bool ends_with_call_of_x86_64(CodeBefore code);
bool ends_with_call_of_aarch64(CodeBefore code);

/// Returns the file whose code has made the system call in which the main thread of a process
/// waits; empty if it does not wait, or if this user may not inspect the process. May block without
/// limit on a hostile process: its stack may be on a file system that hangs.
std::string waiting_code(pid_t pid);

/// Returns the same if the system call is nanosleep(2) or clock_nanosleep(2), otherwise an empty
/// string.
std::string sleeping_code(pid_t pid);

/// Returns true if the file is a library for collectives, such as PyTorch, NCCL or MPI.
bool is_collective_library(std::string_view path);

/// Returns the descendants of a process that sleep in PyTorch code, as between two attempts to
/// connect to a store. Inspects at most kInspectedMax processes, nearest descendants first.
inline constexpr std::size_t kInspectedMax = 4096;
std::vector<pid_t> sleeping_in_pytorch(pid_t ancestor);

}  // namespace ddprun
