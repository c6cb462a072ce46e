// What an agent does that looks for its run's coordinator: a pure function of what it sees in etcd.
#pragma once

#include "rendezvous/etcd/run_keys.hpp"

#include <chrono>
#include <variant>

namespace ddprun::etcd {

/// The coordinator is there.
struct GoTo {
  StoreEndpoint endpoint;
  Revision created = 0;

  bool operator==(const GoTo&) const = default;
};
/// The one that is named has just been found not to answer: until another is named, or it is time
/// to try again.
struct AwaitChange {
  Revision first = 0;

  bool operator==(const AwaitChange&) const = default;
};
/// A value that is not accepted prevents an election: until it is gone.
struct AwaitRemoval {
  Revision first = 0;

  bool operator==(const AwaitRemoval&) const = default;
};
/// There is none: become it.
struct Campaign {
  bool operator==(const Campaign&) const = default;
};
/// There is nothing to take part in.
struct AcceptOutcome {
  membership::RunOutcome outcome;
  bool has_other_config = false;  ///< this node, than the run

  bool operator==(const AcceptOutcome&) const = default;
};
using Move = std::variant<GoTo, AwaitChange, AwaitRemoval, Campaign, AcceptOutcome>;

/// `self` is what this node would say when joining. `tried` is the coordinator that it has tried
/// last (0: none yet), `may_try_again` whether it has waited long enough since.
Move decide_move(const EtcdSnapshot& snapshot, const membership::Join& self, Revision tried,
                 bool may_try_again);

/// How a term of this node's begins, as the node itself sees it.
struct OwnBeginning {
  std::chrono::steady_clock::time_point elected;
  bool has_nodes = false;  ///< anybody has joined, this node's agent or another
  int failures = 0;        ///< of this node's agent to get there, one after the other
};

/// An address that does not lead to this node from itself will hardly do so from others: whether
/// the node must resign so that another one can be elected.
bool is_unreachable(const OwnBeginning& beginning, std::chrono::steady_clock::time_point now);

}  // namespace ddprun::etcd
