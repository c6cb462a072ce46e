// Decides the next step of an agent that searches for its run's coordinator: a pure function of the
// keys in etcd.
#pragma once

#include "rendezvous/etcd/run_keys.hpp"

#include <chrono>
#include <variant>

namespace ddprun::etcd {

/// Connect to the coordinator.
struct GoTo {
  StoreEndpoint endpoint;
  Revision created = 0;

  bool operator==(const GoTo&) const = default;
};
/// The current coordinator did not answer: wait until it changes, or until a retry is due.
struct AwaitChange {
  Revision first = 0;

  bool operator==(const AwaitChange&) const = default;
};
/// An unaccepted value blocks the election: wait until it is removed.
struct AwaitRemoval {
  Revision first = 0;

  bool operator==(const AwaitRemoval&) const = default;
};
/// There is no coordinator: run for election.
struct Campaign {
  bool operator==(const Campaign&) const = default;
};
/// The run has ended, or refuses this node.
struct AcceptOutcome {
  membership::RunOutcome outcome;
  bool has_other_config = false;  ///< this node's configuration differs from the run's

  bool operator==(const AcceptOutcome&) const = default;
};
using Move = std::variant<GoTo, AwaitChange, AwaitRemoval, Campaign, AcceptOutcome>;

/// Returns the next step. `self` is this node's Join, `tried` the coordinator tried last (0: none);
/// `may_try_again` is true if the retry is due.
Move decide_move(const EtcdSnapshot& snapshot, const membership::Join& self, Revision tried,
                 bool may_try_again);

/// Start of this node's own term, as observed by the node.
struct OwnBeginning {
  std::chrono::steady_clock::time_point elected;
  bool has_nodes = false;  ///< true if an agent has joined
  int failures = 0;        ///< consecutive failures of this node's agent to connect
};

/// Returns true if this node cannot connect to its own address. Other nodes probably cannot either,
/// so the node must resign for another to be elected.
bool is_unreachable(const OwnBeginning& beginning, std::chrono::steady_clock::time_point now);

}  // namespace ddprun::etcd
