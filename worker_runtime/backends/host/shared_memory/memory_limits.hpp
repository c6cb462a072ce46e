// The limits on the memory that a group shares, and what follows from them: how large an arena is,
// and whether the memory can be had. A memory file beyond the limit of file sizes would end the
// process by SIGXFSZ, so limits are checked before the kernel is asked. /dev/shm is no limit: a
// memfd lies outside it. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ddprun::shared_memory {

/// Bytes that this process may have; SIZE_MAX: no limit.
struct MemoryLimits {
  std::size_t machine = SIZE_MAX;        ///< physical memory
  std::size_t file = SIZE_MAX;           ///< of one file, a memfd included (ulimit -f)
  std::size_t address_space = SIZE_MAX;  ///< left to be mapped (ulimit -v)
};

MemoryLimits memory_limits();

/// Bytes of one rank's arena: `wanted` if that is not 0, else an even share of half of the
/// machine's memory, or of a quarter of what is left of a limited address space, and no more than a
/// limited file has room for. Address space only; memory is taken as it is used. Pure.
std::size_t choose_arena_bytes(std::size_t wanted, int ranks, const MemoryLimits& limits);

/// Throws Error{Errc::system} if `bytes` exceed a limit, naming it with its value. Pure.
void require_room(std::size_t bytes, const MemoryLimits& limits);

}  // namespace ddprun::shared_memory
