// Which nodes can form a round together when some pairs of them cannot reach each other. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun::membership {

/// Indices of two nodes, at least one of which cannot reach the other.
using CutPair = std::pair<std::size_t, std::size_t>;

/// The exact search takes 2^16 steps at most.
inline constexpr std::size_t kExactNodesMax = 16;

/// Returns the largest set of the nodes 0 to `count` - 1 without a cut between any two of them, in
/// ascending order; of several largest ones, the first in lexicographic order. `required` is always
/// in it. While more than kExactNodesMax nodes have cuts, the node with the most cuts is left out
/// first (of several, the last), so that in very broken networks the set may not be the largest.
std::vector<std::size_t> largest_reachable_set(std::size_t count, const std::vector<CutPair>& cuts,
                                               std::optional<std::size_t> required = std::nullopt);

}  // namespace ddprun::membership
