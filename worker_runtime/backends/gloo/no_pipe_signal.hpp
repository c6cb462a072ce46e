// Blocks SIGPIPE in its thread during its lifetime: Gloo does not suppress it, and by default it
// ends a process that writes to a closed connection. Writes fail with EPIPE instead; threads that
// are started meanwhile inherit the mask.
#pragma once

#include <csignal>
#include <ctime>

namespace ddprun {

class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;
  ~NoPipeSignal() {
    // Otherwise a pending signal would be delivered when it is unblocked.
    const timespec at_once{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool was_pending_;
};

}  // namespace ddprun
