// State of a run that outlives its coordinator, and the takeover by the next one. Values;
// record_text() serialises them.
#pragma once

#include "rendezvous/membership/restart_budget.hpp"
#include "rendezvous/membership/settings.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::membership {

/// A node that took part in a round, and its agent at that time.
struct PastNode {
  std::string name;
  std::uint64_t instance = 0;  ///< instance in its Join

  bool operator==(const PastNode&) const = default;
};

struct RunRecord {
  int round = -1;  ///< latest round
  int rounds_formed = 0;
  std::vector<PastNode> nodes{};  ///< nodes of that round, by node rank
  PastNode host{};                ///< node of the coordinator that wrote the record
  int restarts = 0;
  int fast_failures = 0;
  /// Upper bound of the leases of all nodes that may have workers of that round.
  std::chrono::milliseconds lease{0};

  // Clocks of different machines are not comparable, so times are stored as ages at or before the
  // time of writing. Nodes report the time since they were notified of the round, which is a lower
  // bound of the time since the writing. Restarts therefore appear younger than they are, never
  // older, and are not forgotten too early.
  std::chrono::milliseconds since_round{0};
  /// ages of the restarts that may still count
  std::vector<std::chrono::milliseconds> restart_ages{};

  // Settings that must be equal on all nodes.
  int nodes_min = 1;
  int nodes_max = 1;
  int max_restarts = 0;
  std::string config_hash{};

  bool operator==(const RunRecord&) const = default;
};

/// Creates a record of the settings and the restarts until `now`; the caller adds the round.
RunRecord record_of(const Settings& settings, const RestartHistory& history, Time now);

RestartHistory history_of(const RunRecord& record, Time now);

/// Returns the run's original settings, for objection_to().
Settings settings_of(const RunRecord& record, const std::string& run_id);

/// The nodes of a round formed by another coordinator. Nodes that rejoin have killed their old
/// workers; others may be cut off and have workers until their lease, last renewed by that
/// coordinator, expires. The former coordinator's own node is not waited for: its workers end with
/// its term.
class FailoverState {
 public:
  FailoverState() = default;  ///< no coordinator preceded this one
  FailoverState(const RunRecord& record, Time leases_end);

  /// Registers a node that has joined and returns its rank in that round; -1 if it had none. A
  /// restarted agent gets the rank of its name if the name is unique, but the former agent's lease
  /// is still waited for, since that agent may be alive.
  int claim(const std::string& name, std::uint64_t instance);

  /// Returns the earliest time for a new round; nullopt if it may be formed now.
  std::optional<Time> not_before(Time now) const;

 private:
  struct Place {
    PastNode node;
    bool is_claimed = false;
    bool may_have_workers = true;
  };
  std::vector<Place>::iterator place_of(const std::string& name, std::uint64_t instance);
  std::vector<Place> places_;  ///< places by node rank
  Time leases_end_;
};

}  // namespace ddprun::membership
