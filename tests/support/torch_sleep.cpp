// A library with the name of one of PyTorch's, in whose code a process sleeps.
#include "tests/support/torch_sleep.hpp"

#include <ctime>
#include <sys/syscall.h>
#include <unistd.h>

namespace ddprun::test {

bool sleep_in_libtorch() {
  const timespec time{.tv_sec = 3600, .tv_nsec = 0};
  // Sanitizers replace clock_nanosleep() by their own code. The rest keeps this function on the
  // stack.
  return ::syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &time, nullptr) == 0;
}

}  // namespace ddprun::test
