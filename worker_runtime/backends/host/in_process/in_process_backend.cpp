#include "worker_runtime/backends/host/in_process/in_process_backend.hpp"

#include "worker_runtime/backends/host/shared_memory/memory_limits.hpp"
#include <ddprun/error.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun {

namespace {

std::shared_ptr<const shared_memory::Region> make_region(int ranks, const GroupOptions& options) {
  auto limits = shared_memory::memory_limits();
  limits.file = SIZE_MAX;  // the memory is anonymous
  return std::make_shared<const shared_memory::Region>(shared_memory::Region::anonymous(
      ranks, shared_memory::choose_arena_bytes(options.arena_bytes, ranks, limits)));
}

}  // namespace

std::shared_ptr<const shared_memory::Region> InProcessRegions::get(int ranks,
                                                                   const GroupOptions& options) {
  const std::lock_guard lock(mutex_);
  auto& known = by_name_[options.name];
  auto region = known.lock();
  if (!region) known = region = make_region(ranks, options);
  return region;
}

std::vector<std::unique_ptr<Backend>> create_in_process_backends(int size,
                                                                 const GroupOptions& options,
                                                                 shared_memory::Reach reach) {
  if (size < 1 || size > shared_memory::kRanksMax) {
    throw Error(Errc::usage, "process group \"" + options.name + "\": " + std::to_string(size) +
                                 " ranks in one process (1 to " +
                                 std::to_string(shared_memory::kRanksMax) + " are possible)");
  }
  const auto region = make_region(size, options);
  std::vector<std::unique_ptr<Backend>> backends;
  backends.reserve(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    backends.push_back(std::make_unique<shared_memory::SharedMemoryBackend>(
        region, rank, reach, std::nullopt, RankNames({}, options.name)));
  }
  return backends;
}

}  // namespace ddprun
