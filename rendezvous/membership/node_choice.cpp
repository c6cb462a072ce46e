#include "rendezvous/membership/node_choice.hpp"

#include "rendezvous/membership/node_order.hpp"
#include "rendezvous/membership/reachable_set.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

namespace ddprun::membership {

NodeChoice choose_nodes(const Roster& roster, const Reachability& reach) {
  const auto nodes = roster.candidates();
  if (!reach.has_cuts()) return {.chosen = nodes};
  std::optional<std::size_t> host;
  std::vector<CutPair> cuts;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (roster.find(nodes[i])->join.is_host) host = i;
    for (std::size_t j = 0; j < i; ++j) {
      if (reach.is_cut(nodes[i], nodes[j])) cuts.emplace_back(j, i);
    }
  }
  NodeChoice choice{.cut_off = {nodes.begin(), nodes.end()}};
  for (const auto i : largest_reachable_set(nodes.size(), cuts, host)) {
    choice.chosen.push_back(nodes[i]);
    choice.cut_off.erase(nodes[i]);
  }
  return choice;
}

SpareNodes spare_nodes(const Roster& roster, const NodeChoice& choice) {
  SpareNodes spares;
  for (const auto& [id, member] : roster.all()) {
    const bool is_spare = member.workers == Roster::Workers::none && !member.is_leaving;
    if (!is_spare || member.held_back_until) continue;
    spares.ids.push_back(id);
    if (!choice.cut_off.contains(id)) spares.reachable.push_back(member.join.name);
  }
  return spares;
}

std::vector<NamedCut> cuts_among(std::vector<NodeId> nodes, const Roster& roster,
                                 const Reachability& reach) {
  std::sort(nodes.begin(), nodes.end(), [&](NodeId a, NodeId b) {
    return natural_less(roster.find(a)->join.name, roster.find(b)->join.name);
  });
  std::vector<NamedCut> cuts;
  for (auto a = nodes.begin(); a != nodes.end(); ++a) {
    for (auto b = std::next(a); b != nodes.end(); ++b) {
      if (!reach.is_cut(*a, *b)) continue;
      const Join& first = roster.find(*a)->join;
      const Join& second = roster.find(*b)->join;
      cuts.push_back({.a = first.name,
                      .b = second.name,
                      .a_reaches_b = reach.can_reach(*a, *b),
                      .b_reaches_a = reach.can_reach(*b, *a),
                      .is_with_host = first.is_host || second.is_host});
    }
  }
  return cuts;
}

std::string describe_cuts(const NodeChoice& choice, const Roster& roster,
                          const Reachability& reach) {
  auto nodes = choice.chosen;
  nodes.insert(nodes.end(), choice.cut_off.begin(), choice.cut_off.end());
  return describe_cuts(cuts_among(std::move(nodes), roster, reach));
}

}  // namespace ddprun::membership
