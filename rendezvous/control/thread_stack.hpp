// Stack requests from the agent to a worker that links the runtime, while both keep running: the
// agent creates a named pipe beside the worker's error file and signals each thread, which writes
// one ThreadStack. The agent resolves the addresses.
#pragma once

#include <climits>
#include <csignal>
#include <cstdint>

namespace ddprun::control {

/// Signal of a request; not one of the first real-time signals, which other runtimes use.
inline int stack_request_signal() {
  return SIGRTMIN + 9;
}

/// The name of the pipe, in the folder of the worker's error file.
inline constexpr const char* kStackPipe = "stacks.pipe";

/// Deeper stacks are recursions, whose innermost frames suffice.
inline constexpr std::uint32_t kStackFramesMax = 64;

/// Answer of one thread, without the frames of the signal handler. The first address is the next
/// instruction, the others are return addresses.
struct ThreadStack {
  std::int32_t thread_id = 0;
  std::uint32_t frames = 0;
  std::uint64_t addresses[kStackFramesMax] = {};  ///< innermost first
};
static_assert(sizeof(ThreadStack) <= PIPE_BUF, "threads write at the same time without a lock");

}  // namespace ddprun::control
