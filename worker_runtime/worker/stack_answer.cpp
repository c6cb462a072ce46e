#include "worker_runtime/worker/stack_answer.hpp"

#include "rendezvous/control/thread_stack.hpp"

#include <execinfo.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace ddprun::worker {

namespace {

using control::kStackFramesMax;
using control::ThreadStack;

// The handler, and the trampoline through which the kernel calls it.
constexpr int kOwnFrames = 2;

// Global, since a signal handler has no user argument. Set once before the handler is installed.
char pipe_path[PATH_MAX] = "";

void answer(int) {
  const int saved_errno = errno;
  // Fails unless the agent reads, so stray signals have no effect.
  const int pipe = ::open(pipe_path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
  if (pipe >= 0) {
    void* frames[kStackFramesMax + kOwnFrames];
    const int count = ::backtrace(frames, kStackFramesMax + kOwnFrames);
    ThreadStack stack{.thread_id = ::gettid()};
    for (int i = kOwnFrames; i < count; ++i)
      stack.addresses[stack.frames++] = reinterpret_cast<std::uint64_t>(frames[i]);
    // Atomic, since it is shorter than PIPE_BUF; if the pipe is full, the stack is dropped.
    [[maybe_unused]] const ssize_t written = ::write(pipe, &stack, sizeof stack);
    ::close(pipe);
  }
  errno = saved_errno;
}

}  // namespace

void install_stack_dump_handler(const std::string& error_file) {
  const std::string path =
      error_file.substr(0, error_file.rfind('/') + 1) + std::string(control::kStackPipe);
  if (error_file.empty() || path.size() >= sizeof pipe_path) return;
  std::memcpy(pipe_path, path.c_str(), path.size() + 1);
  struct sigaction action {};
  action.sa_handler = answer;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  ::sigaction(control::stack_request_signal(), &action, nullptr);
}

}  // namespace ddprun::worker
