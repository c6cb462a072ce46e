// How a round ends: failures and membership changes, the way in which workers stop, and the next
// step with its cost. A value.
//
//   a worker fails on its own     costs a restart
//   a node is lost, or leaves     free: peers of lost workers fail, too
//   a cut between two nodes       free: their workers fail because of it
//   a node joins                  free, unless a worker failed before it was asked to stop for it
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

/// Orderly if there is no failure, so that workers can save their state.
enum class StopMode : std::uint8_t { urgent, orderly };

/// Returns why the workers of this node ended: the description of its first failure, if any.
std::string reason_of(const WorkersEnded& ended, const std::string& node);

/// A change that ends a round although no worker has failed.
struct MembershipChange {
  enum class Kind : std::uint8_t { comes, leaves, is_lost, is_cut };
  Kind kind = Kind::comes;
  std::string reason;
  Time when;

  StopMode stop_mode() const {
    return kind == Kind::comes || kind == Kind::leaves ? StopMode::orderly : StopMode::urgent;
  }
};

/// The step that follows a round.
struct NextStep {
  std::optional<RunResult> end{};         ///< result of the run; nullopt: another round
  std::string reason{};                   ///< reason for the step
  std::optional<BudgetDecision> spent{};  ///< set if the step uses a restart
};

class RoundEnd {
 public:
  /// Records that the workers of a node are failing.
  void note(NodeId node, const WorkersFailing& failing, Time now);

  /// Records that the workers of a node have ended.
  void note(NodeId node, const WorkersEnded& ended, Time now);

  /// Records the change. A failure within `reach` before it counts as its consequence.
  void note(const MembershipChange& change, std::chrono::milliseconds reach);

  /// Returns true if all `nodes` nodes succeeded before their workers were asked to stop, so the
  /// reason for the stop no longer matters.
  bool is_success(std::size_t nodes) const { return succeeded_unasked_ == nodes; }

  /// A node that could not execute its workers, with the reason.
  struct Unable {
    NodeId node = 0;
    std::string reason;
  };
  const std::vector<Unable>& unable() const { return unable_; }

  /// REQUIRES: no node has workers.
  NextStep next_step(const RestartHistory& history, const RestartSettings& settings,
                     Time now) const;

  /// Adds the failures to the outcome.
  void add_to(RunOutcome& outcome) const { failures_.add_to(outcome); }

 private:
  std::string reason_of_change() const;

  RoundFailures failures_;
  std::vector<Unable> unable_;
  std::optional<std::string> no_restart_;  ///< see WorkersEnded
  std::size_t succeeded_unasked_ = 0;
  std::set<NodeId> failed_unasked_;         ///< nodes that failed before they were asked to stop
  std::optional<MembershipChange> change_;  ///< reason for the end, regardless of failures
};

}  // namespace ddprun::membership
