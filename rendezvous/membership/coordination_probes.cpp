// How the coordinator learns which nodes can reach each other, and acts on it.
#include "rendezvous/membership/coordination.hpp"
#include "rendezvous/membership/node_order.hpp"
#include "rendezvous/membership/reachable_set.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

namespace ddprun::membership {

namespace {

/// Of fewer nodes one is the host, which the others have reached.
constexpr std::size_t kProbedNodesMin = 3;

/// For the answers to arrive, once all attempts to connect have ended.
constexpr auto kAnswerTime = std::chrono::seconds(1);

/// Between probes while a node is left out of a round; one costs a few packets.
constexpr auto kProbeInterval = std::chrono::seconds(30);

/// Probes that must agree before the run is ended: one alone may have lost its packets.
constexpr int kProbesToEnd = 2;

std::string retry_text() {
  return " (probed again every " + seconds_text(kProbeInterval) + ")";
}

bool is_spare(const Roster::Member& member) {
  return member.workers == Roster::Workers::none && !member.is_leaving && !member.held_back_until;
}

}  // namespace

void Coordination::hear(NodeId id, const Probed& probed) {
  reach_.note(id, probed);
}

/// All present nodes connect to each other but to the host, which each has reached. Returns false
/// if there is nothing to probe; then nothing is known of cuts.
bool Coordination::begin_probe() {
  std::vector<Reachability::Node> nodes;
  Probe probe{.timeout = settings_.probe_timeout};
  for (const auto& [id, member] : roster_.all()) {
    if (member.is_leaving) continue;
    probe.peers.push_back(member.join.is_host ? ProbeAddress{} : member.join.probe);
    nodes.push_back({.id = id, .is_target = probe.peers.back().port != 0});
  }
  const bool has_targets =
      std::any_of(nodes.begin(), nodes.end(), [](const auto& node) { return node.is_target; });
  const bool is_possible = settings_.probe_timeout.count() > 0 && has_targets &&
                           nodes.size() >= kProbedNodesMin && nodes.size() <= kProbedNodesMax;
  if (!is_possible) {
    reach_.clear();
    return false;
  }
  next_retry_.reset();
  probe.number = reach_.begin(nodes, now_, now_ + settings_.probe_timeout + kAnswerTime);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    auto for_node = probe;
    for_node.peers[i].port = 0;
    tell(nodes[i].id, std::move(for_node));
  }
  return true;
}

/// Returns whether it is known which of the present nodes can reach each other. Begins a probe if
/// one is needed.
bool Coordination::knows_reach() {
  if (reach_.is_running()) return false;
  std::vector<NodeId> present;
  for (const auto& [id, member] : roster_.all()) {
    if (!member.is_leaving) present.push_back(id);
  }
  return reach_.covers(present) || !begin_probe();
}

void Coordination::use_probe() {
  if (phase_ == Phase::running) {
    if (has_room_for_others()) admit_reachable();
    // A later round may be far away.
    if (phase_ == Phase::running) reach_.expire();
    return;
  }
  if (phase_ != Phase::stopping) return;
  std::vector<NodeId> nodes;
  for (const auto& [id, member] : roster_.all()) {
    if (member.workers != Workers::none) nodes.push_back(id);
  }
  const auto cuts = cuts_among(nodes);
  if (cuts.empty()) return;
  end_.note({.kind = MembershipChange::Kind::is_cut,
             .reason = describe_cuts(cuts),
             .when = reach_.begun()},
            2 * settings_.lease);
}

/// Ends a round for spares with which the next one would be larger.
void Coordination::admit_reachable() {
  const auto chosen = choose_nodes();
  std::vector<NodeId> spares;
  std::vector<std::string> joined;
  for (const auto& [id, member] : roster_.all()) {
    if (!is_spare(member)) continue;
    spares.push_back(id);
    if (!member.is_cut_off) joined.push_back(member.join.name);
  }
  const auto size = std::min(chosen.size(), static_cast<std::size_t>(settings_.nodes_max));
  if (size > last_nodes_.size()) {
    const std::string verb = joined.size() == 1 ? " has" : " have";
    return change(MembershipChange::Kind::comes, listed(std::move(joined)) + verb + " joined",
                  now_);
  }
  if (!spares.empty()) next_retry_ = now_ + kProbeInterval;
  const auto text = describe_left_out();
  for (const NodeId id : spares) {
    tell(id, Waiting{text + "; the others continue without this node" + retry_text(), true});
  }
}

/// Returns the largest set of candidates that can all reach each other, and marks the others.
std::vector<NodeId> Coordination::choose_nodes() {
  roster_.set_cut_off({});
  const auto nodes = roster_.candidates(roster_.all().size());
  if (!reach_.has_cuts()) return nodes;
  std::optional<std::size_t> host;
  std::vector<CutPair> cuts;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (roster_.find(nodes[i])->join.is_host) host = i;
    for (std::size_t j = 0; j < i; ++j) {
      if (reach_.is_cut(nodes[i], nodes[j])) cuts.emplace_back(j, i);
    }
  }
  std::set<NodeId> others(nodes.begin(), nodes.end());
  std::vector<NodeId> chosen;
  for (const auto i : largest_reachable_set(nodes.size(), cuts, host)) {
    chosen.push_back(nodes[i]);
    others.erase(nodes[i]);
  }
  roster_.set_cut_off(others);
  return chosen;
}

void Coordination::form_largest_round() {
  roster_.end_holding_back(now_, settings_.nodes_min);
  auto count = choose_nodes().size();
  if (std::cmp_less(count, settings_.nodes_min) && !roster_.held_back().empty()) {
    roster_.end_holding_back(now_, std::numeric_limits<int>::max());
    count = choose_nodes().size();
  }
  if (std::cmp_greater_equal(count, settings_.nodes_min)) return form_round();
  if (++short_probes_ < kProbesToEnd && begin_probe()) return;
  end_ = {};  // workers that failed at the cut are not the cause
  finish(Verdict::Result::no_quorum,
         describe_left_out() + "; a round needs " + counted_nodes(settings_.nodes_min) +
             " that can all reach each other, and at most " + std::to_string(count) +
             " can (--rdzv_conf=probe_timeout=0 disables this check)");
}

/// The cuts of the nodes that are left out; empty if no node is.
std::string Coordination::describe_left_out() const {
  std::vector<NodeId> nodes;
  bool are_all_in = true;
  for (const auto& [id, member] : roster_.all()) {
    if (member.is_leaving || member.held_back_until) continue;
    nodes.push_back(id);
    are_all_in = are_all_in && !member.is_cut_off;
  }
  return are_all_in ? std::string() : describe_cuts(cuts_among(nodes));
}

void Coordination::tell_left_out() {
  next_retry_.reset();
  auto text = describe_left_out();
  if (text.empty()) return;
  next_retry_ = now_ + kProbeInterval;
  std::vector<std::string> names;
  for (const auto& [id, member] : roster_.all()) {
    if (member.is_cut_off) names.push_back(member.join.name);
  }
  text += ": the round begins without " + listed(std::move(names)) + retry_text();
  for (const auto& [id, member] : roster_.all()) {
    if (!member.is_leaving) tell(id, Waiting{text, true});
  }
}

/// By the nodes' names.
std::vector<NamedCut> Coordination::cuts_among(std::vector<NodeId> nodes) const {
  std::sort(nodes.begin(), nodes.end(), [this](NodeId a, NodeId b) {
    return natural_less(roster_.find(a)->join.name, roster_.find(b)->join.name);
  });
  std::vector<NamedCut> cuts;
  for (auto a = nodes.begin(); a != nodes.end(); ++a) {
    for (auto b = std::next(a); b != nodes.end(); ++b) {
      if (!reach_.is_cut(*a, *b)) continue;
      const Join& first = roster_.find(*a)->join;
      const Join& second = roster_.find(*b)->join;
      cuts.push_back({.a = first.name,
                      .b = second.name,
                      .a_reaches_b = reach_.can_reach(*a, *b),
                      .b_reaches_a = reach_.can_reach(*b, *a),
                      .is_with_host = first.is_host || second.is_host});
    }
  }
  return cuts;
}

}  // namespace ddprun::membership
