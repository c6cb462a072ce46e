// Selects the nodes of a round and orders their ranks. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::membership {

/// Compares with numbers by value: "node2" before "node10".
bool natural_less(std::string_view a, std::string_view b);

struct OrderedNode {
  int wanted_rank = -1;    ///< --node_rank; -1: none
  int previous_rank = -1;  ///< rank in the previous round; -1: none
  std::string name;
};

/// Returns the indices of the selected nodes, by node rank: nodes of the previous round first, then
/// by position in `nodes`, at most `nodes_max`; the others are spares. Ranks are assigned first to
/// nodes with a wanted rank, by it; then to those of the previous round, in their old order; then
/// to the others, by name. Ranks are contiguous, so a wanted rank only determines the order while
/// other nodes are missing.
std::vector<std::size_t> order_nodes(const std::vector<OrderedNode>& nodes, std::size_t nodes_max);

}  // namespace ddprun::membership
