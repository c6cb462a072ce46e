// Functions and variables that are newer than glibc 2.27, for programs that are linked for an older
// version (DDPRUN_GLIBC in cmake/OldGlibc.cmake).
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
// Limits the effect of a change of the system's time.
constexpr std::int64_t kLongestWait = kSecond;

/// Returns 0 if `end` has passed, at most kLongestWait.
std::int64_t nanoseconds_until(const timespec& end, clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  const std::int64_t seconds = end.tv_sec - now.tv_sec;
  if (seconds > 1) return kLongestWait;
  if (seconds < -1) return 0;
  return std::clamp(seconds * kSecond + end.tv_nsec - now.tv_nsec, std::int64_t{0}, kLongestWait);
}

}  // namespace

extern "C" {

/// glibc 2.32. False, so that libstdc++ counts references with atomic operations.
char __libc_single_threaded = 0;  // NOLINT(bugprone-reserved-identifier)

/// glibc 2.30.
pid_t gettid() noexcept {
  return static_cast<pid_t>(::syscall(SYS_gettid));
}

/// glibc 2.30. May return 0 without a notification, which callers have to expect in any case.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* end) {
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  const std::int64_t nanoseconds = until.tv_nsec + nanoseconds_until(*end, clock);
  until.tv_sec += nanoseconds / kSecond;
  until.tv_nsec = nanoseconds % kSecond;
  const int result = ::pthread_cond_timedwait(condition, mutex, &until);
  return result == ETIMEDOUT && nanoseconds_until(*end, clock) > 0 ? 0 : result;
}
}
