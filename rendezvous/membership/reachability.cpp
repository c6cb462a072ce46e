#include "rendezvous/membership/reachability.hpp"

#include <algorithm>

namespace ddprun::membership {

std::uint32_t Reachability::begin(std::vector<Node> nodes, Time now, Time end) {
  nodes_ = std::move(nodes);
  pending_.clear();
  answers_.clear();
  for (const auto& node : nodes_) pending_.insert(node.id);
  begun_ = now;
  end_ = end;
  return ++number_;
}

void Reachability::note(NodeId node, const Probed& probed) {
  if (!is_running() || probed.number != number_ || pending_.erase(node) == 0) return;
  auto& unreachable = answers_[node];
  for (const std::size_t index : probed.unreachable) {
    const bool counts =
        index < nodes_.size() && nodes_[index].is_target && nodes_[index].id != node;
    if (counts) unreachable.insert(index);
  }
}

bool Reachability::conclude(Time now) {
  if (!is_running() || (!pending_.empty() && now < *end_)) return false;
  end_.reset();
  cuts_.clear();
  covered_.clear();
  for (const auto& node : nodes_) covered_.insert(node.id);
  std::size_t attempts = 0;
  for (const auto& [from, unreachable] : answers_) {
    for (const auto& node : nodes_) attempts += node.is_target && node.id != from ? 1 : 0;
    for (const auto index : unreachable) cuts_.emplace(from, nodes_[index].id);
  }
  if (cuts_.size() == attempts) cuts_.clear();
  return true;
}

bool Reachability::covers(const std::vector<NodeId>& nodes) const {
  return std::all_of(nodes.begin(), nodes.end(), [&](NodeId id) { return covered_.contains(id); });
}

void Reachability::clear() {
  end_.reset();
  covered_.clear();
  cuts_.clear();
}

std::string describe_cuts(const std::vector<NamedCut>& cuts) {
  std::string text;
  bool is_with_host = false;
  const auto listed = std::min(cuts.size(), kCutsListedMax);
  for (std::size_t i = 0; i < listed; ++i) {
    const auto& cut = cuts[i];
    if (i > 0) text += ", ";
    if (cut.a_reaches_b) {
      text += "node " + cut.b + " cannot reach " + cut.a;
    } else if (cut.b_reaches_a) {
      text += "node " + cut.a + " cannot reach " + cut.b;
    } else {
      text += "nodes " + cut.a + " and " + cut.b + " cannot reach each other";
    }
    is_with_host = is_with_host || cut.is_with_host;
  }
  if (listed < cuts.size()) text += " (and " + std::to_string(cuts.size() - listed) + " more)";
  if (is_with_host) return text;
  return text + (cuts.size() == 1 ? "; both reach the host" : "; all reach the host");
}

}  // namespace ddprun::membership
