// Prevents this process from opening descriptors during its lifetime.
#pragma once

#include <doctest/doctest.h>

#include <sys/resource.h>
#include <unistd.h>

namespace ddprun::test {

class NoDescriptors {
 public:
  NoDescriptors() {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    // Open descriptors stay open, but the number of a closed one cannot be reused.
    const rlimit none{.rlim_cur = STDERR_FILENO + 1, .rlim_max = before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace ddprun::test
