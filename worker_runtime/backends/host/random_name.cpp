#include "worker_runtime/backends/host/random_name.hpp"

#include <ddprun/error.hpp>

#include <array>
#include <cerrno>
#include <cstdio>
#include <sys/random.h>

namespace ddprun::host {

std::string random_name() {
  std::array<unsigned char, 16> random;
  if (::getrandom(random.data(), random.size(), 0) != ssize_t{random.size()})
    throw_system_error("process group: getrandom", errno);
  std::string name;
  for (const unsigned char byte : random) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    name += digits;
  }
  return name;
}

}  // namespace ddprun::host
