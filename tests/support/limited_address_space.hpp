// A limit on the address space of this process, like `ulimit -v`.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <fstream>
#include <sys/resource.h>
#include <unistd.h>

namespace ddprun::test {

/// Leaves `bytes_left` beyond the mapped memory; the destructor restores the old limit.
class LimitedAddressSpace {
 public:
  explicit LimitedAddressSpace(std::size_t bytes_left) {
    ::getrlimit(RLIMIT_AS, &before_);
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    struct rlimit limit = before_;
    limit.rlim_cur = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + bytes_left;
    REQUIRE(::setrlimit(RLIMIT_AS, &limit) == 0);
  }
  LimitedAddressSpace(const LimitedAddressSpace&) = delete;
  LimitedAddressSpace& operator=(const LimitedAddressSpace&) = delete;
  ~LimitedAddressSpace() { ::setrlimit(RLIMIT_AS, &before_); }

 private:
  struct rlimit before_ {};
};

}  // namespace ddprun::test
