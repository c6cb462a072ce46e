// How the workers of several nodes find each other: each says in the store where it listens and on
// which node it is; from that all come to the same layout. Blocking.
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

/// What a worker says of itself.
struct Presence {
  int node = 0;
  int local_world_size = 1;
  tcp::PeerAddress address;
  std::uint16_t message_port = 0;  ///< at the same addresses: for send and recv

  bool operator==(const Presence&) const = default;
};

/// With a proof that a rank of the group, which knows `key`, says this of `rank`.
std::string encode(const Presence& presence, int rank, const Digest& key);
/// Throws Error{Errc::protocol} if `text` is no encoding of one, or the proof is wrong.
Presence decode_presence(const std::string& text, int rank, const Digest& key);

/// Throws Error{Errc::usage} if the workers, in the order of their ranks, do not form whole nodes
/// of neighbouring ranks.
collectives::NodeLayout layout_of(const std::vector<Presence>& workers);

struct NodeMeeting {
  Digest key = {};     ///< known to these workers alone, new each time
  std::string prefix;  ///< of the names of their keys in the store
  std::vector<Presence> workers;
};

/// `name` is the group's in the store, `own` is what this worker says of itself. The group's key is
/// derived from `run_key`, which the workers have from their agents, and a random number that rank
/// 0 writes into the store; without a run's key, all that the store's clients can read suffices for
/// it. Everything but a key for each worker under `prefix` is gone from the store again when rank 0
/// returns, and no other rank can leave the group's construction before.
NodeMeeting meet_nodes(Store& store, const std::string& name, const std::optional<Digest>& run_key,
                       const WorkerEnv& env, const RankNames& names, const Presence& own,
                       Deadline deadline);

/// The key of one kind of connections between these workers.
Digest key_for(const NodeMeeting& meeting, std::string_view connections);

/// Where worker `rank` has left its Presence.
std::string presence_key(const NodeMeeting& meeting, int rank);

}  // namespace ddprun::host
