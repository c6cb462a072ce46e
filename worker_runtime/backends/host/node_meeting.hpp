// How the workers of several nodes find each other: each says in the store where it listens and on
// which node it is; from that all come to the same layout. Blocking.
#pragma once

#include "worker_runtime/backends/rank_names.hpp"
#include "worker_runtime/backends/tcp/socket.hpp"
#include "worker_runtime/collectives/node_layout.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/store.hpp>
#include <ddprun/worker_env.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::host {

/// What a worker says of itself.
struct Presence {
  int node = 0;
  int local_world_size = 1;
  tcp::PeerAddress address;
  std::uint16_t message_port = 0;  ///< at the same addresses: for send and recv

  bool operator==(const Presence&) const = default;
};

std::string encode(const Presence& presence);
/// Throws Error{Errc::protocol} if it is no encoding of one.
Presence decode_presence(const std::string& text);

/// Throws Error{Errc::usage} if the workers, in the order of their ranks, do not form whole nodes
/// of neighbouring ranks.
collectives::NodeLayout layout_of(const std::vector<Presence>& workers);

struct NodeMeeting {
  std::string token;   ///< known to these workers alone, new each time
  std::string prefix;  ///< of keys that are theirs alone
  std::vector<Presence> workers;
};

/// What this worker says is `own`. `key` is the group's, `names` its ranks'. Everything but a key
/// for each worker under `prefix` is gone from the store again when rank 0 returns, and nobody else
/// can leave the group's construction before.
NodeMeeting meet_nodes(Store& store, const std::string& key, const WorkerEnv& env,
                       const RankNames& names, const Presence& own, Deadline deadline);

/// Where worker `rank` has left its Presence.
std::string presence_key(const NodeMeeting& meeting, int rank);

}  // namespace ddprun::host
