#include "rendezvous/membership/flapping_nodes.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::membership {

void FlappingNodes::note(const std::string& name, Time came, Time now) {
  if (now - came >= kLongStay) {
    of_.erase(name);
    return;
  }
  if (!of_.contains(name)) make_room();
  auto& stays = of_[name];
  stays.count = std::min(stays.count + 1, kRoundMax);
  stays.left = now;
}

void FlappingNodes::make_room() {
  if (of_.size() < kStaysKept) return;
  of_.erase(std::min_element(of_.begin(), of_.end(), [](const auto& a, const auto& b) {
    return a.second.left < b.second.left;
  }));
}

void FlappingNodes::hold_back(const std::set<NodeId>& cut_off, Roster& roster, Time now) {
  for (const NodeId id : cut_off) {
    auto& member = *roster.find(id);
    const auto came = std::exchange(member.came, now);
    if (member.node_rank < 0) continue;  // not in the last round
    note(member.join.name, came, now);
    const auto time = hold_back(member.join.name);
    if (time.count() > 0) member.held_back_until = now + time;
  }
}

int FlappingNodes::count(const std::string& name) const {
  const auto found = of_.find(name);
  return found == of_.end() ? 0 : found->second.count;
}

std::chrono::milliseconds FlappingNodes::hold_back(const std::string& name) const {
  const int stays = count(name);
  if (stays <= kFreeShortStays) return std::chrono::milliseconds(0);
  std::chrono::milliseconds time = kFirstHoldBack;
  for (int i = kFreeShortStays + 1; i < stays && time < kLongestHoldBack; ++i) time *= 2;
  return std::min<std::chrono::milliseconds>(time, kLongestHoldBack);
}

}  // namespace ddprun::membership
