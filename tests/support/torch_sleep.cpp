// A library with the name of one of PyTorch's, in whose code a process sleeps.
#include "tests/support/torch_sleep.hpp"

#include <ctime>
#include <sys/syscall.h>
#include <unistd.h>

namespace ddprun::test {

namespace {

/// Sleeps below this number of frames, since PyTorch calls through many.
bool sleep_below(int frames) {
  if (frames > 0) return !sleep_below(frames - 1);
  const timespec time{.tv_sec = 3600, .tv_nsec = 0};
  // Sanitizers replace clock_nanosleep() by their own code.
  return ::syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &time, nullptr) == 0;
}

}  // namespace

bool sleep_in_libtorch() {
  return sleep_below(128);
}

}  // namespace ddprun::test
