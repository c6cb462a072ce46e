#include "rendezvous/base/quiet_write.hpp"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <unistd.h>

namespace ddprun {

ssize_t quiet_write(int fd, const void* bytes, std::size_t count) noexcept {
  sigset_t signals, before, pending;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGPIPE);
  ::sigaddset(&signals, SIGXFSZ);
  ::pthread_sigmask(SIG_BLOCK, &signals, &before);
  ::sigpending(&pending);
  const ssize_t written = ::write(fd, bytes, count);
  const int error = errno;
  const int sent = error == EPIPE ? SIGPIPE : SIGXFSZ;
  if (written < 0 && (error == EPIPE || error == EFBIG) && ::sigismember(&pending, sent) == 0) {
    ::sigemptyset(&signals);
    ::sigaddset(&signals, sent);
    const timespec at_once{};
    ::sigtimedwait(&signals, nullptr, &at_once);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return written;
}

}  // namespace ddprun
