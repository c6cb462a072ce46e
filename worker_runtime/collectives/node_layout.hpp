// Distribution of ranks over nodes. The ranks of a node are contiguous, and nodes are in the order
// of their ranks, as launchers number them. A plain value, equal on all ranks.
#pragma once

#include <vector>

namespace ddprun::collectives {

class NodeLayout {
 public:
  /// `ranks_on_nodes[n]`: number of ranks on node n, at least 1.
  explicit NodeLayout(const std::vector<int>& ranks_on_nodes);

  int nodes() const { return static_cast<int>(first_ranks_.size()) - 1; }
  int ranks() const { return first_ranks_.back(); }

  int first_rank(int node) const { return first_ranks_[static_cast<std::size_t>(node)]; }
  int ranks_on(int node) const { return first_rank(node + 1) - first_rank(node); }
  int node_of(int rank) const;
  /// Returns the rank's index on its node.
  int local_rank(int rank) const { return rank - first_rank(node_of(rank)); }

  /// Number of ranks of each node that move data between nodes concurrently: that of the smallest
  /// node.
  int lanes() const { return lanes_; }

  /// Returns true if every node has one rank.
  bool is_flat() const { return ranks() == nodes(); }

  /// Returns the rank of `node` that `rank` connects to initially.
  int partner(int rank, int node) const {
    return first_rank(node) + local_rank(rank) % ranks_on(node);
  }

  /// Returns the ranks of other nodes that `rank` connects to initially, in order: its partners,
  /// and the ranks whose partner it is.
  std::vector<int> neighbours(int rank) const;

 private:
  std::vector<int> first_ranks_;  ///< first rank of each node, then the number of ranks
  int lanes_ = 0;
};

}  // namespace ddprun::collectives
