#include "worker_runtime/backends/host/host_backend.hpp"

#include "worker_runtime/backends/host/handover.hpp"
#include "worker_runtime/backends/shared_memory/shared_memory_backend.hpp"
#include <ddprun/error.hpp>
#include <ddprun/store.hpp>

#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <optional>
#include <utility>

namespace ddprun {

namespace {

using shared_memory::Region;

/// The page is mapped a second time, so that it does not matter who else in this process uses it
/// and for how long.
std::optional<control::ControlPage> attach_control_page(const WorkerEnv& env) {
  if (!env.control_page_fd) return std::nullopt;
  const int copy = ::fcntl(*env.control_page_fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) {
    throw_system_error("control page: descriptor " + std::to_string(*env.control_page_fd), errno);
  }
  return control::ControlPage::attach(copy, env.control_page_slot);
}

// Long enough for a store that answers at all.
constexpr auto kEraseTimeout = std::chrono::seconds(1);

/// Rank 0. The key is gone again before anybody's create() returns or throws, so that the next
/// group of this name does not meet the socket of the last one.
Region make_region(Store& store, const std::string& key, const WorkerEnv& env,
                   const GroupOptions& options, Deadline deadline) {
  Region region = Region::create(
      env.world_size, shared_memory::choose_arena_bytes(options.arena_bytes, env.world_size));
  host::HandoverServer server;
  store.set(key, server.name(), deadline);
  try {
    server.serve(region.fd(), env.world_size, deadline);
  } catch (...) {
    store.erase(key, Deadline::after(kEraseTimeout));
    throw;
  }
  store.erase(key, deadline);
  return region;
}

Region join_region(Store& store, const std::string& key, const WorkerEnv& env, Deadline deadline) {
  const std::string name = store.get(key, deadline);
  return Region::attach(host::receive_descriptor(name, env.rank, deadline), env.world_size);
}

Region meet(const WorkerEnv& env, const GroupOptions& options, Deadline deadline) {
  if (env.world_size == 1) {
    return Region::create(1, shared_memory::choose_arena_bytes(options.arena_bytes, 1));
  }
  Store store = Store::connect(env.store(), deadline);
  const std::string key = "ddprun/group/" + options.name + "/host";
  return env.rank == 0 ? make_region(store, key, env, options, deadline)
                       : join_region(store, key, env, deadline);
}

}  // namespace

std::string host_unavailable_reason(const WorkerEnv& env) {
  if (env.node_count > 1 || env.local_world_size != env.world_size) {
    return "it connects the workers of one node in this version, and these are " +
           std::to_string(env.world_size) + " workers of which " +
           std::to_string(env.local_world_size) + " are on this node";
  }
  if (env.world_size > shared_memory::kRanksMax) {
    return "it connects at most " + std::to_string(shared_memory::kRanksMax) +
           " workers, and these are " + std::to_string(env.world_size);
  }
  if (env.world_size > 1 && env.store().port == 0) {
    return "several workers need a store to meet at, and MASTER_PORT is not set (start them with "
           "ddprun, or run a store and set MASTER_ADDR and MASTER_PORT)";
  }
  return {};
}

std::unique_ptr<Backend> create_host_backend(const WorkerEnv& env, const GroupOptions& options,
                                             Deadline deadline) {
  auto page = attach_control_page(env);
  auto region = std::make_shared<const Region>(meet(env, options, deadline));
  return std::make_unique<shared_memory::SharedMemoryBackend>(
      std::move(region), env.rank, shared_memory::Reach::arenas, std::move(page));
}

}  // namespace ddprun
