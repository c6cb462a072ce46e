// Functions and variables of glibc that are newer than 2.28, for programs that are linked for an
// older version (DDPRUN_GLIBC in cmake/OldGlibc.cmake).
#include <chrono>
#include <ctime>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" {

/// glibc 2.32. False, so that libstdc++ counts references with atomic operations.
char __libc_single_threaded = 0;  // NOLINT(bugprone-reserved-identifier)

/// glibc 2.30.
pid_t gettid() noexcept {
  return static_cast<pid_t>(::syscall(SYS_gettid));
}

/// glibc 2.30. Returns ETIMEDOUT too early if the system's time is set forward meanwhile, as
/// libstdc++ expects of a clock that is not the system's.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* end) {
  const auto nanoseconds = [](const timespec& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  timespec now{}, system_now{};
  ::clock_gettime(clock, &now);
  ::clock_gettime(CLOCK_REALTIME, &system_now);
  const auto system_end = nanoseconds(system_now) + nanoseconds(*end) - nanoseconds(now);
  const auto whole = std::chrono::floor<std::chrono::seconds>(system_end);
  const timespec until{.tv_sec = whole.count(), .tv_nsec = (system_end - whole).count()};
  return ::pthread_cond_timedwait(condition, mutex, &until);
}
}
