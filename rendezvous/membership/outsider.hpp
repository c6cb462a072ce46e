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

/// Begins the reason of a verdict for nodes whose workers have succeeded and that have waited long
/// enough for others: the run goes on without them, and may end in another way.
inline constexpr const char* kRelease = "the workers of this node succeeded, and ";

inline bool is_release(const Verdict& verdict) {
  return verdict.result == Verdict::Result::succeeded && verdict.reason.starts_with(kRelease);
}

/// For how long others may learn how a run has ended. A node that has lost its coordinator looks
/// for another one for the rejoin timeout. Twice that, and none is left that could want to know.
inline std::chrono::seconds memory_of_run(const Settings& settings) {
  return std::chrono::ceil<std::chrono::seconds>(2 * settings.rejoin_timeout);
}

}  // namespace ddprun::membership
