// Agents that claim the name or rank of a connected agent: their node was restarted, or started
// twice. They wait until the former agent is lost or sends another heartbeat. A value.
#pragma once

#include "rendezvous/membership/roster.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::membership {

class DuplicateAgents {
 public:
  /// `pause` is the interval of notices to waiting agents.
  explicit DuplicateAgents(std::chrono::milliseconds pause) : pause_(pause) {}

  struct Claim {
    bool must_wait = false;  ///< false if the agent is refused
    std::string reason;      ///< reason for the agent's operator
  };

  /// Decides about an agent that requests the rank of a connected one, and adds it if it must wait.
  /// Returns nullopt if the rank is free or none is requested.
  std::optional<Claim> claim(NodeId id, const Join& join, const Roster& roster, Time now);

  void remove(NodeId id) { waiting_.erase(id); }
  bool contains(NodeId id) const { return waiting_.contains(id); }

  std::optional<Time> next_notice() const {
    return waiting_.empty() ? std::nullopt : std::optional(next_notice_);
  }

  /// Returns the agents that are due a notice, and the reason for their wait.
  std::vector<std::pair<NodeId, std::string>> take_due_notices(Time now);

  struct ContentionResult {
    std::vector<std::pair<NodeId, Join>> free{};  ///< agents whose former agent is lost
    /// agents whose former agent is lost, but whose request is old
    std::vector<std::pair<NodeId, Join>> late{};
    std::vector<std::pair<NodeId, Join>> refused{};  ///< agents whose former agent is alive
  };

  /// Removes and returns the agents whose claim is decided. `lease` is the lease of members, which
  /// send several heartbeats per lease. Leaving members count neither as alive nor as lost.
  ContentionResult resolve(const Roster& roster, std::chrono::milliseconds lease, Time now);

  /// Returns why an agent is refused after its wait.
  static std::string refusal(const Join& join);

 private:
  struct Duplicate {
    Join join;
    NodeId former = 0;
    Time since;
    std::string why;
    std::optional<Time> first_heartbeat{};  ///< first heartbeat of the former agent after `since`
  };

  static bool is_alive(Duplicate& contender, Time last_heartbeat, std::chrono::milliseconds lease);

  std::chrono::milliseconds pause_;
  Time next_notice_;
  std::map<NodeId, Duplicate> waiting_;
};

}  // namespace ddprun::membership
