// What of a run outlives the one who coordinates it, and how the next one takes over. Values; how
// a record is written down is in record_text.hpp.
#pragma once

#include "rendezvous/membership/restart_budget.hpp"
#include "rendezvous/membership/settings.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::membership {

/// A node that took part in a round, and its agent then.
struct PastNode {
  std::string name;
  std::uint64_t instance = 0;  ///< as in Join

  bool operator==(const PastNode&) const = default;
};

struct RunRecord {
  int round = -1;  ///< the latest
  int rounds_formed = 0;
  std::vector<PastNode> nodes{};  ///< of that round, by node rank
  PastNode host{};                ///< whose agent has written this; it may have had no workers
  int restarts = 0;
  int fast_failures = 0;
  /// At least that of all nodes that may have workers of that round.
  std::chrono::milliseconds lease{0};

  // No clock of one machine means anything to another, so these are ages, all at one moment: not
  // later than the writing, and of a coordinator that has formed no round not later than it could
  // know. Nodes of that round tell how long ago they heard of it, which was after it was formed.
  // So whatever that is more than `since_round` has passed since the moment, and a restart is taken
  // for younger than it is, never for older: it is not forgotten too early.
  std::chrono::milliseconds since_round{0};
  std::vector<std::chrono::milliseconds> restart_ages{};  ///< of those that may still count

  // What all nodes must have in common.
  int nodes_min = 1;
  int nodes_max = 1;
  int max_restarts = 0;
  std::string config_hash{};

  bool operator==(const RunRecord&) const = default;
};

/// With what has been spent by `now`; the caller adds what is known of the round.
RunRecord record_of(const Settings& settings, const RestartHistory& history, Time now);

RestartHistory history_of(const RunRecord& record, Time now);

/// The settings that the run was begun with, for objection_to().
Settings settings_of(const RunRecord& record, const std::string& run_id);

/// The nodes of a round that another coordinator formed. Agents that come again have seen to it
/// that nothing is left of their workers. The others may be cut off, and have workers until their
/// lease has ended, which was renewed by the last coordinator while it was one. That one's own node
/// is not waited for: its workers do not outlive its term.
class FailoverState {
 public:
  FailoverState() = default;  ///< no coordinator preceded this one
  FailoverState(const RunRecord& record, Time leases_end);

  /// A node has come: its rank in that round; -1 if it had none. One whose agent was started anew
  /// has that of its name, if no other had the same; but who knows whether the agent before is
  /// gone, so its lease is waited for.
  int claim(const std::string& name, std::uint64_t instance);

  /// Until when a round would be too early; nothing: it would not.
  std::optional<Time> not_before(Time now) const;

 private:
  struct Place {
    PastNode node;
    bool is_claimed = false;
    bool may_have_workers = true;
  };
  std::vector<Place>::iterator place_of(const std::string& name, std::uint64_t instance);
  std::vector<Place> places_;  ///< by node rank
  Time leases_end_;
};

}  // namespace ddprun::membership
