// Discovery of workers on several nodes. Each worker publishes its listening addresses and its node
// in the store; all workers derive the same layout from them. Blocking.
#pragma once

#include "rendezvous/base/hmac.hpp"
#include "worker_runtime/backends/host/tcp/socket.hpp"
#include "worker_runtime/backends/rank_names.hpp"
#include "worker_runtime/collectives/node_layout.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/store.hpp>
#include <ddprun/worker_env.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::host {

/// Entry of a worker in the store.
struct Presence {
  int node = 0;
  int local_world_size = 1;
  tcp::PeerAddress address;
  std::uint16_t message_port = 0;  ///< port of send and recv, at the same addresses

  bool operator==(const Presence&) const = default;
};

/// Encodes `presence` with an HMAC under `key` that also covers `rank`.
std::string encode(const Presence& presence, int rank, const Digest& key);
/// Decodes `text`. Throws Error{Errc::protocol} if it is malformed or its HMAC is wrong.
Presence decode_presence(const std::string& text, int rank, const Digest& key);

/// Returns the layout. Throws Error{Errc::usage} unless the ranks of each node are contiguous.
collectives::NodeLayout layout_of(const std::vector<Presence>& workers);

struct NodeMeeting {
  Digest key = {};     ///< secret of these workers, new for each group
  std::string prefix;  ///< prefix of their keys in the store
  std::vector<Presence> workers;
};

/// `name`: the group's name in the store; `own`: this worker's entry. The group's key is derived
/// from `run_key`, which workers get from their agents, and a random number that rank 0 writes into
/// the store; without `run_key`, clients of the store can derive it. When rank 0 returns, only one
/// key for each worker under `prefix` is left in the store, and no other rank returns earlier.
NodeMeeting meet_nodes(Store& store, const std::string& name, const std::optional<Digest>& run_key,
                       const WorkerEnv& env, const RankNames& names, const Presence& own,
                       Deadline deadline);

/// Returns the key of one kind of connections between these workers.
Digest key_for(const NodeMeeting& meeting, std::string_view connections);

/// Returns the store's key of the Presence of `rank`.
std::string presence_key(const NodeMeeting& meeting, int rank);

}  // namespace ddprun::host
