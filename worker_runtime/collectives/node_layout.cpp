#include "worker_runtime/collectives/node_layout.hpp"

#include <algorithm>

namespace ddprun::collectives {

NodeLayout::NodeLayout(const std::vector<int>& ranks_on_nodes)
    : first_ranks_{0}, lanes_(*std::min_element(ranks_on_nodes.begin(), ranks_on_nodes.end())) {
  for (const int ranks : ranks_on_nodes) first_ranks_.push_back(first_ranks_.back() + ranks);
}

int NodeLayout::node_of(int rank) const {
  const auto next = std::upper_bound(first_ranks_.begin(), first_ranks_.end(), rank);
  return static_cast<int>(next - first_ranks_.begin()) - 1;
}

std::vector<int> NodeLayout::neighbours(int rank) const {
  std::vector<int> neighbours;
  const int own_node = node_of(rank);
  for (int other = 0; other < ranks(); ++other) {
    const int node = node_of(other);
    if (node == own_node) continue;
    if (partner(rank, node) == other || partner(other, own_node) == rank)
      neighbours.push_back(other);
  }
  return neighbours;
}

}  // namespace ddprun::collectives
