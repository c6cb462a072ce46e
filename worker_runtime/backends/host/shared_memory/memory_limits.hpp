// Limits on the shared memory of a group, and the size of an arena that follows from them. Limits
// are checked first, since a memfd beyond the limit of file sizes would end the process by SIGXFSZ.
// The size of /dev/shm does not matter to a memfd. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddprun::shared_memory {

/// Limits in bytes; SIZE_MAX: none.
struct MemoryLimits {
  std::size_t machine = SIZE_MAX;        ///< physical memory
  std::size_t file = SIZE_MAX;           ///< size of a file, including a memfd (ulimit -f)
  std::size_t address_space = SIZE_MAX;  ///< unused address space (ulimit -v)
};

MemoryLimits memory_limits();

/// Returns the bytes of one rank's arena: `wanted` if not 0, else an even share of half of the
/// machine's memory or of a quarter of the remaining address space, whichever is less, within the
/// limit of file sizes. This reserves address space only; pages are allocated on first use. Pure.
std::size_t choose_arena_bytes(std::size_t wanted, int ranks, const MemoryLimits& limits);

/// Throws Error{Errc::system} if `bytes` exceed a limit, naming it with its value. Pure.
void require_room(std::size_t bytes, const MemoryLimits& limits);

}  // namespace ddprun::shared_memory
