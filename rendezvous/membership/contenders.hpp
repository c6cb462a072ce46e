// Agents that want the place of another one that seems to be there: the same node, at the same
// rank, started anew, or started twice. Which of the two it is shows when the other one is lost, or
// is heard of again. A value.
#pragma once

#include "rendezvous/membership/roster.hpp"

#include <chrono>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun::membership {

class Contenders {
 public:
  void add(NodeId id, Join join, NodeId former, Time now) {
    waiting_.insert_or_assign(id, Contender{std::move(join), former, now});
  }
  void remove(NodeId id) { waiting_.erase(id); }
  bool contains(NodeId id) const { return waiting_.contains(id); }

  struct Settled {
    std::vector<std::pair<NodeId, Join>> free{};     ///< nobody is in their place any more
    std::vector<std::pair<NodeId, Join>> refused{};  ///< another one lives there
  };

  /// Those of whom it is known now; they wait no more. `lease` is that of members, which are heard
  /// of several times in it.
  Settled settle(const Roster& roster, std::chrono::milliseconds lease) {
    Settled settled;
    for (auto each = waiting_.begin(); each != waiting_.end();) {
      const auto* former = roster.find(each->second.former);
      const bool lives =
          former != nullptr && goes_on(each->second, former->lease_end - lease, lease);
      if (former != nullptr && !lives) {
        ++each;
        continue;
      }
      auto& into = lives ? settled.refused : settled.free;
      into.emplace_back(each->first, std::move(each->second.join));
      each = waiting_.erase(each);
    }
    return settled;
  }

 private:
  struct Contender {
    Join join;
    NodeId former = 0;
    Time since;
    std::optional<Time> first_heard{};  ///< of the former, after that
  };

  /// Last words that the network has held up come all at once.
  static bool goes_on(Contender& contender, Time last_heard, std::chrono::milliseconds lease) {
    constexpr int kLeaseParts = 3;
    if (last_heard <= contender.since) return false;
    if (!contender.first_heard) contender.first_heard = last_heard;
    return last_heard >= *contender.first_heard + lease / kLeaseParts;
  }

  std::map<NodeId, Contender> waiting_;
};

}  // namespace ddprun::membership
