#include "worker_runtime/backends/host/host_backend.hpp"

#include "worker_runtime/backends/backend_agreement.hpp"
#include "worker_runtime/backends/forget_key.hpp"
#include "worker_runtime/backends/host/handover.hpp"
#include "worker_runtime/backends/host/node_meeting.hpp"
#include "worker_runtime/backends/host/nodes_backend.hpp"
#include "worker_runtime/backends/host/shared_memory/memory_limits.hpp"
#include "worker_runtime/backends/host/shared_memory/shared_memory_backend.hpp"
#include <ddprun/error.hpp>
#include <ddprun/store.hpp>

#include <optional>
#include <utility>

namespace ddprun {

namespace {

using shared_memory::Region;

std::optional<control::ControlPage> attach_control_page(const WorkerEnv& env) {
  if (!env.control_page_fd) return std::nullopt;
  return control::ControlPage::attach_again(*env.control_page_fd, env.control_page_slot);
}

/// The workers of this node, whose rank `first` creates the shared memory.
struct Node {
  int first = 0;
  int ranks = 1;
  std::string key;    ///< key of the socket's name in the store
  RankNames names{};  ///< names of the group's ranks
};

Region create_region(int ranks, const GroupOptions& options) {
  using namespace shared_memory;
  return Region::create(ranks, choose_arena_bytes(options.arena_bytes, ranks, memory_limits()));
}

/// Removes the key before create() returns or throws on any rank, so that the next group of this
/// name does not find the socket of this one.
Region make_region(Store& store, const Node& node, const GroupOptions& options, Deadline deadline) {
  Region region = create_region(node.ranks, options);
  if (node.ranks == 1) return region;
  region.line(0).is_attached.store(1);
  host::HandoverServer server;
  store.set(node.key, server.name(), deadline);
  try {
    server.serve(region.fd(), node.first + 1, node.first + node.ranks - 1, node.names, deadline);
  } catch (...) {
    forget_key(store.endpoint(), node.key);
    throw;
  }
  store.erase(node.key, deadline);
  return region;
}

std::string socket_of_first(Store& store, const Node& node, const GroupOptions& options,
                            Deadline deadline) try {
  return store.get(node.key, deadline);
} catch (const Error& error) {
  if (error.code() != Errc::timeout) throw;
  throw Error(Errc::timeout, "process group: " + node.names.name(node.first) +
                                 " has not created group \"" + options.name + "\" " +
                                 deadline.describe());
}

Region get_region(Store& store, const Node& node, int rank, const GroupOptions& options,
                  Deadline deadline) {
  if (rank == node.first) return make_region(store, node, options, deadline);
  const std::string name = socket_of_first(store, node, options, deadline);
  return Region::attach(host::receive_descriptor(name, rank, deadline), node.ranks);
}

bool is_one_node(const WorkerEnv& env) {
  return env.node_count == 1 && env.local_world_size == env.world_size;
}

BackendAgreement::Member member_of(const GroupPlace& place, const GroupOptions& options,
                                   const char* backend) {
  return {
      .group = options.name, .backend = backend, .rank = place.env.rank, .names = place.names()};
}

Region meet_on_node(const GroupPlace& place, const GroupOptions& options, const std::string& key,
                    const char* backend, Deadline deadline) {
  const WorkerEnv& env = place.env;
  if (env.world_size == 1) return create_region(1, options);
  Store store = Store::connect(env.store(), deadline);
  BackendAgreement agreement(store, member_of(place, options, backend), deadline);
  const Node node{.ranks = env.world_size, .key = key + "/host", .names = place.names()};
  Region region = get_region(store, node, env.rank, options, deadline);
  agreement.end(store, deadline);
  return region;
}

std::unique_ptr<WatchfulBackend> create_on_one_node(const GroupPlace& place,
                                                    const GroupOptions& options,
                                                    const std::string& key, const char* backend,
                                                    Deadline deadline) {
  auto page = attach_control_page(place.env);
  auto region =
      std::make_shared<const Region>(meet_on_node(place, options, key, backend, deadline));
  return std::make_unique<shared_memory::SharedMemoryBackend>(
      std::move(region), place.env.rank, shared_memory::Reach::arenas, std::move(page),
      place.names(options.name));
}

std::unique_ptr<WatchfulBackend> create_on_nodes(const GroupPlace& place,
                                                 const GroupOptions& options,
                                                 const std::string& key, const char* backend,
                                                 Deadline deadline) {
  const WorkerEnv& env = place.env;
  auto page = attach_control_page(env);
  Store store = Store::connect(env.store(), deadline);
  BackendAgreement agreement(store, member_of(place, options, backend), deadline);
  tcp::Listening listening = tcp::listen_for_peers(store.local_address());
  tcp::Listening for_messages = tcp::listen_for_peers(store.local_address());
  auto meeting =
      host::meet_nodes(store, key, page ? page->run_key() : std::nullopt, env, place.names(),
                       {.node = env.node_rank,
                        .local_world_size = env.local_world_size,
                        .address = listening.address,
                        .message_port = for_messages.address.port},
                       deadline);
  host::NodesOptions nodes{
      .layout = layout_of(meeting.workers),
      .names = place.names(options.name),
      .mesh = {.rank = env.rank, .key = key_for(meeting, "mesh"), .peers = {}},
      .messages = {.rank = env.rank, .key = key_for(meeting, "messages"), .peers = {}},
      .failure_key = meeting.prefix + "/failure",
      .presence_key = presence_key(meeting, env.rank)};
  for (const auto& worker : meeting.workers) {
    nodes.mesh.peers.push_back(worker.address);
    nodes.messages.peers.push_back({worker.address.addresses, worker.message_port});
  }
  const int number = nodes.layout.node_of(env.rank);
  const Node node{.first = nodes.layout.first_rank(number),
                  .ranks = nodes.layout.ranks_on(number),
                  .key = meeting.prefix + "/node" + std::to_string(number),
                  .names = place.names()};
  auto region =
      std::make_shared<const Region>(get_region(store, node, env.rank, options, deadline));
  agreement.end(store, deadline);
  return std::make_unique<host::NodesBackend>(
      std::move(region), std::move(nodes), std::move(listening.socket),
      std::move(for_messages.socket), std::move(store), std::move(page));
}

}  // namespace

std::string store_missing_reason(const WorkerEnv& env) {
  if (env.world_size == 1 || env.store().port != 0) return {};
  return "several workers need a store, and MASTER_PORT is not set (start them with "
         "ddprun, or run a store and set MASTER_ADDR and MASTER_PORT)";
}

std::string host_unavailable_reason(const WorkerEnv& env) {
  if (env.local_world_size > shared_memory::kRanksMax) {
    return "it connects at most " + std::to_string(shared_memory::kRanksMax) +
           " workers of a node, and these are " + std::to_string(env.local_world_size);
  }
  return store_missing_reason(env);
}

std::unique_ptr<WatchfulBackend> create_host_backend(const GroupPlace& place,
                                                     const GroupOptions& options,
                                                     const char* backend, Deadline deadline) {
  const std::string key = "ddprun/group/" + options.name;
  return is_one_node(place.env) ? create_on_one_node(place, options, key, backend, deadline)
                                : create_on_nodes(place, options, key, backend, deadline);
}

}  // namespace ddprun
