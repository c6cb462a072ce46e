// How a run ends for a node that had no part in it.
#pragma once

#include "rendezvous/membership/settings.hpp"

#include <chrono>
#include <string>

namespace ddprun::membership {

inline RunOutcome refusal_of(const std::string& reason) {
  return {.result = RunResult::no_rendezvous,
          .scope = OutcomeScope::node,
          .reason = "this node was refused: " + reason};
}

/// Time for which other nodes may learn how a run has ended. A node that has lost its coordinator
/// looks for another one for the rejoin timeout; after twice that time no node is left that could
/// ask.
inline std::chrono::seconds memory_of_run(const Settings& settings) {
  return std::chrono::ceil<std::chrono::seconds>(2 * settings.rejoin_timeout);
}

}  // namespace ddprun::membership
