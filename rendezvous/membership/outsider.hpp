// The end of a run as it looks to a node that had no part in it.
#pragma once

#include "rendezvous/membership/settings.hpp"

#include <chrono>
#include <string>

namespace ddprun::membership {

/// Begins the reason of a verdict that is of one node alone: the run goes on without it.
inline constexpr const char* kRefusal = "this node was refused: ";

inline Verdict refusal_of(const std::string& reason) {
  return {.result = Verdict::Result::no_quorum, .reason = kRefusal + reason};
}

inline bool is_refusal(const Verdict& verdict) {
  return verdict.result == Verdict::Result::no_quorum && verdict.reason.starts_with(kRefusal);
}

/// For how long others may learn how a run has ended. A node that has lost its coordinator looks
/// for another one for the rejoin timeout. Twice that, and none is left that could want to know.
inline std::chrono::seconds memory_of_run(const Settings& settings) {
  return std::chrono::ceil<std::chrono::seconds>(2 * settings.rejoin_timeout);
}

}  // namespace ddprun::membership
