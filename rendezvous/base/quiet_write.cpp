#include "rendezvous/base/quiet_write.hpp"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <unistd.h>

namespace ddprun {

namespace {

/// The result of `call`, without the signals that it sends.
template <typename Call>
auto quietly(const Call& call) noexcept {
  sigset_t signals, before, pending;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGPIPE);
  ::sigaddset(&signals, SIGXFSZ);
  ::pthread_sigmask(SIG_BLOCK, &signals, &before);
  ::sigpending(&pending);
  const auto result = call();
  const int error = errno;
  const int sent = error == EPIPE ? SIGPIPE : SIGXFSZ;
  if (result < 0 && (error == EPIPE || error == EFBIG) && ::sigismember(&pending, sent) == 0) {
    ::sigemptyset(&signals);
    ::sigaddset(&signals, sent);
    const timespec at_once{};
    ::sigtimedwait(&signals, nullptr, &at_once);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return result;
}

}  // namespace

ssize_t quiet_write(int fd, const void* bytes, std::size_t count) noexcept {
  return quietly([&] { return ::write(fd, bytes, count); });
}

int quiet_truncate(int fd, off_t bytes) noexcept {
  return quietly([&] { return ::ftruncate(fd, bytes); });
}

}  // namespace ddprun
