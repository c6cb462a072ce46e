// How a round comes to its end: what went wrong or changed meanwhile, whether workers may still
// take their time, and what follows, at what cost. A value.
//
//   a worker fails on its own     costs a restart
//   a node is lost, or leaves     costs nothing: peers of workers that vanish fail, too
//   a cut between two nodes       costs nothing: their workers fail at it
//   a node comes                  costs nothing; but a worker that fails before it was even asked
//   to
//                                 stop for that has failed on its own
#pragma once

#include "rendezvous/membership/restart_budget.hpp"
#include "rendezvous/membership/roster.hpp"
#include "rendezvous/membership/round_failures.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::membership {

/// Orderly if nothing is amiss, so that workers can save what they have done.
enum class StopMode : std::uint8_t { urgent, orderly };

/// A round that would end for it although no worker has failed.
struct MembershipChange {
  enum class Kind : std::uint8_t { comes, leaves, is_lost, is_cut };
  Kind kind = Kind::comes;
  std::string reason;
  Time when;

  StopMode stop_mode() const {
    return kind == Kind::comes || kind == Kind::leaves ? StopMode::orderly : StopMode::urgent;
  }
};

/// What follows a round.
struct NextStep {
  std::optional<RunResult> end{};         ///< of the run; nothing: another round
  std::string reason{};                   ///< of either
  std::optional<BudgetDecision> spent{};  ///< if a restart was asked for
};

class RoundEnd {
 public:
  /// Workers of a node are failing.
  void note(NodeId node, const WorkersFailing& failing, Time now);

  /// The workers of a node have ended.
  void note(NodeId node, const WorkersEnded& ended, Time now);

  /// A failure of at most `reach` before is taken for its consequence.
  void note(const MembershipChange& change, std::chrono::milliseconds reach);

  /// All nodes, so many, have succeeded before their workers were asked to stop: whatever the round
  /// was to be ended for came too late.
  bool is_success(std::size_t nodes) const { return succeeded_unasked_ == nodes; }

  /// A node that could not execute its workers, and why.
  struct Unable {
    NodeId node = 0;
    std::string reason;
  };
  const std::vector<Unable>& unable() const { return unable_; }

  /// Once nobody has workers.
  NextStep next_step(const RestartHistory& history, const RestartSettings& settings,
                     Time now) const;

  /// What went wrong, for those that hear how the run ended.
  void tell(RunOutcome& outcome) const { failures_.tell(outcome); }

 private:
  std::string reason_of_change() const;

  RoundFailures failures_;
  std::vector<Unable> unable_;
  std::optional<std::string> no_restart_;  ///< as in WorkersEnded
  std::size_t succeeded_unasked_ = 0;
  std::set<NodeId> failed_unasked_;         ///< before their workers were asked to stop
  std::optional<MembershipChange> change_;  ///< explains the end, whatever failed
};

}  // namespace ddprun::membership
