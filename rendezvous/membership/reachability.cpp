#include "rendezvous/membership/reachability.hpp"

#include <algorithm>

namespace ddprun::membership {

namespace {

/// With fewer nodes, one is the host, which all others have reached.
constexpr std::size_t kProbedNodesMin = 3;

/// Time for the answers to arrive after all attempts to connect ended.
constexpr auto kAnswerTime = std::chrono::seconds(1);

bool is_ipv6(const ProbeAddress& address) {
  return address.host.find(':') != std::string::npos;
}

/// A node without a probe address may support both families.
bool connects(const Reachability::Node& from, const Reachability::Node& to) {
  if (to.address.port == 0 || from.id == to.id) return false;
  return from.address.port == 0 || is_ipv6(from.address) == is_ipv6(to.address);
}

}  // namespace

std::vector<std::pair<NodeId, Probe>> Reachability::probe(const Roster& roster,
                                                          std::chrono::milliseconds timeout,
                                                          Time now) {
  std::vector<Node> nodes;
  bool has_targets = false;
  for (const NodeId id : roster.candidates()) {
    const Join& join = roster.find(id)->join;
    nodes.push_back({.id = id, .address = join.is_host ? ProbeAddress{} : join.probe});
    has_targets = has_targets || nodes.back().address.port != 0;
  }
  const bool is_possible = timeout.count() > 0 && has_targets && nodes.size() >= kProbedNodesMin &&
                           nodes.size() <= kProbedNodesMax;
  if (!is_possible) {
    clear();
    return {};
  }
  const auto number = begin(std::move(nodes), now, now + timeout + kAnswerTime);
  std::vector<std::pair<NodeId, Probe>> requests;
  for (const auto& node : nodes_) {
    requests.emplace_back(node.id,
                          Probe{.number = number, .timeout = timeout, .peers = peers_of(node)});
  }
  return requests;
}

std::uint32_t Reachability::begin(std::vector<Node> nodes, Time now, Time end) {
  nodes_ = std::move(nodes);
  pending_.clear();
  answers_.clear();
  for (const auto& node : nodes_) pending_.insert(node.id);
  begun_ = now;
  end_ = end;
  return ++number_;
}

std::vector<ProbeAddress> Reachability::peers_of(const Node& node) const {
  std::vector<ProbeAddress> peers;
  for (const auto& peer : nodes_) {
    peers.push_back(connects(node, peer) ? peer.address : ProbeAddress{});
  }
  return peers;
}

void Reachability::note(NodeId node, const Probed& probed) {
  if (!is_running() || probed.number != number_ || pending_.erase(node) == 0) return;
  answers_[node] = {probed.unreachable.begin(), probed.unreachable.end()};
}

bool Reachability::conclude(Time now) {
  if (!is_running() || (!pending_.empty() && now < *end_)) return false;
  end_.reset();
  cuts_.clear();
  covered_.clear();
  for (const auto& node : nodes_) covered_.insert(node.id);
  std::size_t attempts = 0;
  for (const auto& node : nodes_) {
    const auto answer = answers_.find(node.id);
    if (answer == answers_.end()) continue;
    const auto& unreachable = answer->second;
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      if (!connects(node, nodes_[i])) continue;
      ++attempts;
      if (unreachable.contains(i)) cuts_.emplace(node.id, nodes_[i].id);
    }
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
