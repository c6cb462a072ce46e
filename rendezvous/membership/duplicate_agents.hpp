// Agents that claim the name or rank of a connected agent: the node was restarted, or started
// twice. The agent waits until the former one is lost or sends another heartbeat. A value.
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

  /// `why`: reason for the wait, for the operator.
  void add(NodeId id, Join join, NodeId former, const std::string& why, Time now) {
    if (waiting_.empty()) next_notice_ = now + pause_;
    waiting_.insert_or_assign(id, Duplicate{std::move(join), former, now, why});
  }
  void remove(NodeId id) { waiting_.erase(id); }
  bool contains(NodeId id) const { return waiting_.contains(id); }

  std::optional<Time> next_notice() const {
    return waiting_.empty() ? std::nullopt : std::optional(next_notice_);
  }

  /// Returns the agents that are due a notice, and the reason for their wait.
  std::vector<std::pair<NodeId, std::string>> take_due_notices(Time now) {
    std::vector<std::pair<NodeId, std::string>> notices;
    if (waiting_.empty() || now < next_notice_) return notices;
    next_notice_ = now + pause_;
    for (const auto& [id, contender] : waiting_) notices.emplace_back(id, contender.why);
    return notices;
  }

  struct ContentionResult {
    std::vector<std::pair<NodeId, Join>> free{};  ///< the former agent is lost
    /// the former agent is lost, but the request is old
    std::vector<std::pair<NodeId, Join>> late{};
    std::vector<std::pair<NodeId, Join>> refused{};  ///< the former agent is alive
  };

  /// Removes and returns the agents whose claim is decided. `lease` is that of members, which send
  /// several heartbeats in it. A leaving member is treated as neither alive nor lost.
  ContentionResult resolve(const Roster& roster, std::chrono::milliseconds lease, Time now) {
    ContentionResult result;
    for (auto each = waiting_.begin(); each != waiting_.end();) {
      const auto* former = roster.find(each->second.former);
      const bool is_former_alive = former != nullptr && !former->is_leaving &&
                                   is_alive(each->second, former->lease_end - lease, lease);
      if (former != nullptr && !is_former_alive) {
        ++each;
        continue;
      }
      const bool is_late = now - each->second.since >= lease / kHeartbeatsPerLease;
      auto& into = is_former_alive ? result.refused : is_late ? result.late : result.free;
      into.emplace_back(each->first, std::move(each->second.join));
      each = waiting_.erase(each);
    }
    return result;
  }

 private:
  struct Duplicate {
    Join join;
    NodeId former = 0;
    Time since;
    std::string why;
    std::optional<Time> first_heartbeat{};  ///< first heartbeat of the former agent after `since`
  };

  /// Heartbeats that the network delayed arrive together.
  static bool is_alive(Duplicate& contender, Time last_heartbeat, std::chrono::milliseconds lease) {
    constexpr int kLeaseParts = 3;
    if (last_heartbeat <= contender.since) return false;
    if (!contender.first_heartbeat) contender.first_heartbeat = last_heartbeat;
    return last_heartbeat >= *contender.first_heartbeat + lease / kLeaseParts;
  }

  std::chrono::milliseconds pause_;
  Time next_notice_;
  std::map<NodeId, Duplicate> waiting_;
};

}  // namespace ddprun::membership
