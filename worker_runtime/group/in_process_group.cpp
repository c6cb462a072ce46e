#include "worker_runtime/backends/host/in_process/in_process_backend.hpp"
#include "worker_runtime/group/option_checks.hpp"
#include "worker_runtime/group/process_group_impl.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {

namespace {

constexpr char kName[] = "in_process";

GroupPlace place_of(int rank, int size) {
  WorkerEnv env;
  env.rank = env.local_rank = rank;
  env.world_size = env.local_world_size = size;
  return place_among_all(env);
}

}  // namespace

std::vector<ProcessGroup> ProcessGroup::create_in_process(int size, const GroupOptions& options) {
  check_group_options(options);
  return create_in_process_groups(create_in_process_backends(size, options), options);
}

std::vector<ProcessGroup> create_in_process_groups(std::vector<std::unique_ptr<Backend>> backends,
                                                   const GroupOptions& options) {
  const auto deadline = Deadline::after(options.join_timeout);
  const int size = static_cast<int>(backends.size());
  const auto regions = std::make_shared<InProcessRegions>();
  std::vector<std::shared_ptr<ProcessGroup::Impl>> impls;
  try {
    for (int rank = 0; rank < size; ++rank) {
      auto& backend = backends[static_cast<std::size_t>(rank)];
      impls.push_back(std::make_shared<ProcessGroup::Impl>(
          place_of(rank, size), kName, std::move(backend), options,
          CallLog({.name = options.name, .rank = rank, .size = size}), regions));
      impls.back()->start(deadline);
    }
  } catch (const std::exception& error) {
    // The started ranks would wait for the others.
    for (auto& impl : impls) impl->abort(error.what());
    throw;
  }
  std::vector<ProcessGroup> groups;
  for (auto& impl : impls) {
    impl->wait_entered();
    groups.emplace_back(impl);
  }
  return groups;
}

std::shared_ptr<ProcessGroup::Impl> connect_in_process(
    const GroupPlace& place, const std::shared_ptr<InProcessRegions>& regions,
    const GroupOptions& options) {
  const int size = place.env.world_size;
  auto backend = std::make_unique<shared_memory::SharedMemoryBackend>(
      regions->get(size, options), place.env.rank, shared_memory::Reach::everything, std::nullopt,
      place.names(options.name));
  return std::make_shared<ProcessGroup::Impl>(
      place, kName, std::move(backend), options,
      CallLog({.name = options.name, .rank = place.env.rank, .size = size}), regions);
}

}  // namespace ddprun
