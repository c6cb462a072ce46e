// A library for LD_PRELOAD: the wall clock is wrong by SKEW_SECONDS, and with SKEW_JUMPS alternates
// with each call. Other clocks are unchanged.
#include <cstdlib>
#include <ctime>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

namespace {

int number(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

long skew() {
  static thread_local unsigned looks = 0;
  const bool is_right = number("SKEW_JUMPS") != 0 && looks++ % 2 == 0;
  return is_right ? 0 : number("SKEW_SECONDS");
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
  const bool is_wall_clock = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (result == 0 && is_wall_clock) time->tv_sec += skew();
  return result;
}

int timespec_get(timespec* time, int base) noexcept {
  return clock_gettime(CLOCK_REALTIME, time) == 0 ? base : 0;
}

int gettimeofday(timeval* time, void*) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  *time = {.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
  return 0;
}

time_t time(time_t* result) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (result != nullptr) *result = now.tv_sec;
  return now.tv_sec;
}
}
