// Limits on the shared memory of a group, and the size of an arena that follows from them. Limits
// are checked first, since a memfd above the file size limit would end the process with SIGXFSZ.
// The size of /dev/shm does not affect memfds. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddprun::shared_memory {

/// Limits in bytes; SIZE_MAX: unlimited.
struct MemoryLimits {
  std::size_t machine = SIZE_MAX;        ///< physical memory
  std::size_t file = SIZE_MAX;           ///< size of a file, including a memfd (ulimit -f)
  std::size_t address_space = SIZE_MAX;  ///< unused address space (ulimit -v)
};

MemoryLimits memory_limits();

/// Returns the bytes of one rank's arena: `wanted` if not 0, else an even share of half of the
/// machine's memory or of a quarter of the remaining address space, whichever is less, within the
/// file size limit. Only address space is reserved; pages are allocated on first use. Pure.
std::size_t choose_arena_bytes(std::size_t wanted, int ranks, const MemoryLimits& limits);

/// Throws Error{Errc::system} if `bytes` exceed a limit, naming it with its value. Pure.
void require_room(std::size_t bytes, const MemoryLimits& limits);

}  // namespace ddprun::shared_memory
