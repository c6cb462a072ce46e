// The progress of a run: its latest round and the restarts used. Outlives the coordinator as a
// RunRecord. A value.
#pragma once

#include "rendezvous/membership/failover_state.hpp"
#include "rendezvous/membership/messages.hpp"
#include "rendezvous/membership/restart_budget.hpp"
#include "rendezvous/membership/settings.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace ddprun::membership {

class RunProgress {
 public:
  RunProgress(const Settings& settings, Time now) : formed_(now), lease_(settings.lease) {}

  /// Continues a run from the record of another coordinator.
  RunProgress(const Settings& settings, const RunRecord& record, Time now);

  RunRecord record(const Settings& settings, Time now) const;

  /// Corrects the progress by that of a node: after a restart of the coordinator, nodes know more.
  void note(const Join& join, Time now);

  /// Begins the next round, without nodes.
  void begin_round(const Settings& settings, Time now);
  void add_node(const Join& join) { nodes_.push_back({join.name, join.instance}); }

  int round() const { return round_; }  ///< latest round; -1: none
  int next_round() const;
  int rounds_formed() const { return rounds_formed_; }

  /// Nodes of the latest round, by node rank.
  const std::vector<PastNode>& nodes() const { return nodes_; }
  std::vector<std::string> node_names() const;

  /// Longest lease of nodes that may have workers of the latest round.
  std::chrono::milliseconds lease() const { return lease_; }

  RestartHistory restarts{};

 private:
  int round_ = -1;
  int rounds_formed_ = 0;
  int highest_round_ = -1;  ///< highest round of any node
  std::vector<PastNode> nodes_;
  Time formed_;                ///< when the latest round was formed; no earlier if `is_of_former_`
  bool is_of_former_ = false;  ///< another coordinator formed the latest round
  std::chrono::milliseconds lease_;
};

}  // namespace ddprun::membership
