// Outcome of a run for a node that did not take part in it.
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

/// How long the outcome of a run is kept for other nodes. A node that has lost its coordinator
/// looks for another one until the rejoin timeout, so no node asks after twice that time.
inline std::chrono::seconds memory_of_run(const Settings& settings) {
  return std::chrono::ceil<std::chrono::seconds>(2 * settings.rejoin_timeout);
}

}  // namespace ddprun::membership
