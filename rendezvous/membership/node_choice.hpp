// Chooses the nodes of a round by reachability. Pure.
#pragma once

#include "rendezvous/membership/reachability.hpp"
#include "rendezvous/membership/roster.hpp"

#include <set>
#include <string>
#include <vector>

namespace ddprun::membership {

struct NodeChoice {
  std::vector<NodeId> chosen;  ///< nodes that can all reach each other, by rank
  std::set<NodeId> cut_off;    ///< the other candidates
};

/// Chooses the largest set of the roster's candidates that can all reach each other, the host among
/// them.
NodeChoice choose_nodes(const Roster& roster, const Reachability& reach);

/// Connected nodes without workers that are not held back.
struct SpareNodes {
  std::vector<NodeId> ids;
  std::vector<std::string> reachable;  ///< names of those that are not cut off
};

SpareNodes spare_nodes(const Roster& roster, const NodeChoice& choice);

/// Returns the cuts among these nodes of the roster, in the order of the nodes' names.
std::vector<NamedCut> cuts_among(std::vector<NodeId> nodes, const Roster& roster,
                                 const Reachability& reach);

/// Returns the cuts among all nodes of a choice, for operators.
std::string describe_cuts(const NodeChoice& choice, const Roster& roster,
                          const Reachability& reach);

}  // namespace ddprun::membership
