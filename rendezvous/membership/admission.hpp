// Rules for the clients that the store and the coordinator of a run accept.
#pragma once

#include "rendezvous/security/secret.hpp"
#include "rendezvous/store/peer_user.hpp"

namespace ddprun::membership {

struct Admission {
  /// False for a single-node run, which opens no port for other agents.
  bool other_agents = true;
  /// Secret that agents must prove to know; null in an open run. Outlives the run's host.
  const security::Secret* secret = nullptr;
  /// Checks the user of local connections, except those of agents in a run with a secret; empty:
  /// users are not checked.
  UserCheck user = is_root_or_own_user;
};

}  // namespace ddprun::membership
