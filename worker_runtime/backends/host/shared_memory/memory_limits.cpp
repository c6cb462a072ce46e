#include "worker_runtime/backends/host/shared_memory/memory_limits.hpp"

#include "worker_runtime/backends/host/shared_memory/layout.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

namespace ddprun::shared_memory {

namespace {

constexpr std::size_t kArenaBytesMin = 16 << 20;  // minimum for machines with little memory

std::size_t soft_limit(int resource) {
  struct rlimit limit {};
  const bool has_limit = ::getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return has_limit ? limit.rlim_cur : SIZE_MAX;
}

/// Rounds so that a size above a limit never has the same text as the limit.
std::string mebibytes(std::size_t bytes, bool is_limit) {
  constexpr std::size_t kUnit = 1 << 20;
  return std::to_string(bytes / kUnit + (!is_limit && bytes % kUnit != 0 ? 1 : 0)) + " MiB";
}

void require(std::size_t bytes, std::size_t limit, const char* limit_name, const char* command) {
  if (bytes <= limit) return;
  throw Error(Errc::system, "group memory: " + mebibytes(bytes, false) + " exceed the " +
                                mebibytes(limit, true) + " " + limit_name + "; raise the limit (" +
                                command + ") or lower GroupOptions::arena_bytes");
}

}  // namespace

MemoryLimits memory_limits() {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  MemoryLimits limits{.machine = static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * page,
                      .file = soft_limit(RLIMIT_FSIZE)};
  const std::size_t all = soft_limit(RLIMIT_AS);
  if (all == SIZE_MAX) return limits;
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  limits.address_space = all - std::min(pages * page, all);
  return limits;
}

std::size_t choose_arena_bytes(std::size_t wanted, int ranks, const MemoryLimits& limits) {
  const auto count = static_cast<std::size_t>(ranks);
  if (wanted == 0) {
    // The process also needs memory for other groups, heap and stacks.
    const std::size_t all = std::min(limits.machine / 2, limits.address_space / 4);
    const std::size_t head = std::min(Layout{ranks, 0}.bytes(), limits.file);
    const std::size_t in_file = (limits.file - head) / count / kArenaAlignment * kArenaAlignment;
    wanted = std::max(std::min(all / count, in_file), kArenaBytesMin);
  }
  return Layout::round_up(wanted, kArenaAlignment);
}

void require_room(std::size_t bytes, const MemoryLimits& limits) {
  require(bytes, limits.file, "that a file may have", "ulimit -f");
  require(bytes, limits.address_space, "that are left of the address space", "ulimit -v");
}

}  // namespace ddprun::shared_memory
