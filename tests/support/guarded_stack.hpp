// Stacks for fibers.
#pragma once

#include <cstddef>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

// For builds with that sanitizer.
extern "C" __attribute__((weak)) void __asan_unpoison_memory_region(const volatile void* memory,
                                                                    std::size_t bytes);

namespace ddprun::test {

/// Memory with a protected page below it: a thread that needs more ends the test immediately.
class GuardedStack {
 public:
  /// Address space; physical memory is used on demand.
  static constexpr std::size_t kBytes = 256 * 1024;

  GuardedStack() : guard_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
    void* memory = ::mmap(nullptr, guard_ + kBytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    memory_ = static_cast<std::byte*>(memory);
    if (::mprotect(bottom(), kBytes, PROT_READ | PROT_WRITE) != 0) {
      ::munmap(memory_, guard_ + kBytes);
      throw std::bad_alloc();
    }
    // A previous user of the memory may have been abandoned within calls.
    if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(bottom(), kBytes);
  }
  GuardedStack(const GuardedStack&) = delete;
  GuardedStack& operator=(const GuardedStack&) = delete;
  ~GuardedStack() { ::munmap(memory_, guard_ + kBytes); }

  std::byte* bottom() const { return memory_ + guard_; }

 private:
  std::size_t guard_;
  std::byte* memory_ = nullptr;
};

}  // namespace ddprun::test
