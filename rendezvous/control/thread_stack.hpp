// Stack requests from the agent to a worker that links the runtime; both keep running. The agent
// creates a named pipe next to the worker's error file and signals each thread. Each thread writes
// one ThreadStack. The agent resolves the addresses.
#pragma once

#include <climits>
#include <csignal>
#include <cstdint>

namespace ddprun::control {

/// Returns the request signal; other runtimes use the first real-time signals.
inline int stack_request_signal() {
  return SIGRTMIN + 9;
}

/// Name of the pipe in the folder of the worker's error file.
inline constexpr const char* kStackPipe = "stacks.pipe";

/// Maximum frames per stack. Deeper stacks are recursions; their innermost frames suffice.
inline constexpr std::uint32_t kStackFramesMax = 64;

/// Response of one thread, without the frames of the signal handler. The first address is the next
/// instruction; the others are return addresses.
struct ThreadStack {
  std::int32_t thread_id = 0;
  std::uint32_t frames = 0;
  std::uint64_t addresses[kStackFramesMax] = {};  ///< addresses, innermost first
};
static_assert(sizeof(ThreadStack) <= PIPE_BUF, "threads write at the same time without a lock");

}  // namespace ddprun::control
