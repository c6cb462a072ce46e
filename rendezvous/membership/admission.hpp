// Which clients a run serves, of the store and of the coordinator.
#pragma once

#include "rendezvous/security/secret.hpp"
#include "rendezvous/store/peer_user.hpp"

namespace ddprun::membership {

struct Admission {
  /// False: the agent of this process is the only one, and there is no port for others.
  bool other_agents = true;
  /// What agents must prove to know; null: the run is open. Outlives the run's host.
  const security::Secret* secret = nullptr;
  /// For connections from this machine, except those of agents in a run with a secret; empty: users
  /// are not checked.
  UserCheck user = is_root_or_own_user;
};

}  // namespace ddprun::membership
