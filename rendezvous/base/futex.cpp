#include "rendezvous/base/futex.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <ctime>
#include <sys/syscall.h>
#include <unistd.h>

namespace ddprun {

namespace {

// Without futex_waitv (Linux before 5.16, seccomp filters of some containers): maximum time for
// which a thread sleeps on the first word before its caller checks the others.
constexpr auto kFallbackPeriod = std::chrono::milliseconds(5);

timespec to_timespec(Deadline::Duration duration) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(duration);
  return {.tv_sec = static_cast<time_t>(seconds.count()),
          .tv_nsec = static_cast<long>(std::chrono::nanoseconds(duration - seconds).count())};
}

}  // namespace

void futex_wake_all(const void* word) noexcept {
  ::syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void FutexSet::add(const void* word, std::uint32_t expected) {
  words_[count_++] = {.val = expected,
                      .uaddr = reinterpret_cast<std::uintptr_t>(word),
                      .flags = FUTEX_32,
                      .__reserved = 0};
}

void FutexSet::sleep(Deadline deadline) const {
  const timespec until = to_timespec(deadline.time().time_since_epoch());
  const long result = ::syscall(SYS_futex_waitv, words_.data(), count_, 0,
                                deadline.is_never() ? nullptr : &until, CLOCK_MONOTONIC);
  // Some sandboxes return EPERM for unknown calls; retrying immediately would use a CPU.
  const bool is_available = result >= 0 || errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT;
  if (!is_available) {
    const auto period = std::min<Deadline::Duration>(deadline.remaining(), kFallbackPeriod);
    const timespec wait = to_timespec(period);
    ::syscall(SYS_futex, words_[0].uaddr, FUTEX_WAIT, words_[0].val, &wait, nullptr, 0);
  }
}

}  // namespace ddprun
