// Which ranks are on which node. Ranks of a node follow one another and nodes come in the order of
// their ranks, as launchers number them. A plain value; every rank has the same.
#pragma once

#include <vector>

namespace ddprun::collectives {

class NodeLayout {
 public:
  /// Element n is the number of ranks on node n, at least 1.
  explicit NodeLayout(const std::vector<int>& ranks_on_nodes);

  int nodes() const { return static_cast<int>(first_ranks_.size()) - 1; }
  int ranks() const { return first_ranks_.back(); }

  int first_rank(int node) const { return first_ranks_[static_cast<std::size_t>(node)]; }
  int ranks_on(int node) const { return first_rank(node + 1) - first_rank(node); }
  int node_of(int rank) const;
  /// The rank's index on its node.
  int local_rank(int rank) const { return rank - first_rank(node_of(rank)); }

  /// So many ranks of each node move data between nodes at the same time: as many as the node with
  /// the fewest has.
  int lanes() const { return lanes_; }

  /// Whether every node has one rank.
  bool is_flat() const { return ranks() == nodes(); }

  /// The rank of `node` that `rank` is in touch with from the beginning.
  int partner(int rank, int node) const {
    return first_rank(node) + local_rank(rank) % ranks_on(node);
  }

  /// Ranks of other nodes that are in touch with `rank` from the beginning, in order: its partners
  /// and those whose partner it is.
  std::vector<int> neighbours(int rank) const;

 private:
  std::vector<int> first_ranks_;  ///< by node, and the number of ranks
  int lanes_ = 0;
};

}  // namespace ddprun::collectives
