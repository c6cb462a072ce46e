// Texts for the operators of waiting nodes. Pure.
#pragma once

#include "rendezvous/membership/flapping_nodes.hpp"
#include "rendezvous/membership/node_choice.hpp"
#include "rendezvous/membership/reachability.hpp"
#include "rendezvous/membership/roster.hpp"
#include "rendezvous/membership/settings.hpp"

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::membership {

/// Returns "2 of at least 3 nodes have joined (a, b); c was in the last round and has not come
/// back"; before the first round, lists the missing expected nodes instead.
std::string describe_waiting(const std::vector<std::string>& present,
                             const std::vector<std::string>& last_round, const Settings& settings);

/// Returns the same text with the remaining wait for others or for more nodes; `left` 0: no wait.
std::string describe_waiting(const std::vector<std::string>& present,
                             const std::vector<std::string>& last_round, const Settings& settings,
                             Time::duration left);

/// Returns the text at the end of the join timeout: "only 1 of at least 3 nodes joined within 600 s
/// (join_timeout): a; missing: b, c".
std::string describe_shortage(const std::vector<std::string>& present,
                              const std::vector<std::string>& last_round, const Settings& settings);

/// Returns "node b cannot reach c; both reach the host; a round needs 3 nodes that can all reach
/// each other, and at most 2 can".
std::string describe_shortage_of_reach(const NodeChoice& choice, const Roster& roster,
                                       const Reachability& reach, int nodes_min);

/// Returns text such as "; probing again for 12 s at most".
std::string describe_probing_again(Time::duration left);

/// Returns " (probed again every 30 s)".
std::string describe_probes(std::chrono::milliseconds interval);

/// Returns why a node is held back, and for how long.
std::string describe_hold_back(const std::string& node, const FlappingNodes& flapping);

/// Returns why a node whose workers succeeded is released before these others.
std::string describe_release(std::vector<std::string> others, const Settings& settings);

/// Returns the notice to a spare node of a round of `nodes` nodes.
std::string describe_full_round(std::size_t nodes, int nodes_max);

}  // namespace ddprun::membership
