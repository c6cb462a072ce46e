// Which nodes take part in a round, and in which order they get their ranks. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::membership {

/// True if `a` comes before `b` as people count: "node2" before "node10".
bool natural_less(std::string_view a, std::string_view b);

struct OrderedNode {
  int wanted_rank = -1;    ///< --node_rank; -1: none
  int previous_rank = -1;  ///< in the round before; -1: it was not in it
  std::string name;
};

/// Indices into `nodes` of those that take part: those of the round before, then the earlier ones,
/// at most `nodes_max`; the others are spares. The future node rank 0 comes first: nodes with a
/// wanted rank by it, then those of the round before in their old order, then the others by name.
/// Ranks have no gaps, so a wanted rank is an order and not a promise while other nodes are
/// missing.
std::vector<std::size_t> order_nodes(const std::vector<OrderedNode>& nodes, std::size_t nodes_max);

}  // namespace ddprun::membership
