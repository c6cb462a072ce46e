// Gloo writes to sockets without asking to be spared SIGPIPE, which by default ends a process when
// the peer has gone. While one of these lives, writes of its thread fail with EPIPE instead;
// threads that are started meanwhile keep it so.
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
    // Otherwise it would come as soon as it is let through.
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
