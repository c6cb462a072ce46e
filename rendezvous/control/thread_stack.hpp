// How an agent asks a worker that links the runtime for the stacks of its threads while both go on:
// it makes a pipe with a name beside the worker's error file, sends each thread the signal, and
// each thread writes one ThreadStack. What the addresses mean the agent finds out by itself.
#pragma once

#include <climits>
#include <csignal>
#include <cstdint>

namespace ddprun::control {

/// The signal that asks. Not one of the first real-time signals, which other runtimes take.
inline int stack_request_signal() {
  return SIGRTMIN + 9;
}

/// The name of the pipe, in the folder of the worker's error file.
inline constexpr const char* kStackPipe = "stacks.pipe";

/// Deeper stacks are recursions, whose innermost frames tell enough.
inline constexpr std::uint32_t kStackFramesMax = 64;

/// One thread's answer. The frames of the signal handler itself are left out; the first address is
/// the next instruction, the others are where calls return to.
struct ThreadStack {
  std::int32_t thread_id = 0;
  std::uint32_t frames = 0;
  std::uint64_t addresses[kStackFramesMax] = {};  ///< innermost first
};
static_assert(sizeof(ThreadStack) <= PIPE_BUF, "threads write at the same time without a lock");

}  // namespace ddprun::control
