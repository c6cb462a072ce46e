#include "rendezvous/membership/reachable_set.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <set>

namespace ddprun::membership {

namespace {

/// The largest set of nodes without a cut, by branch and bound; nodes are bits.
class ExactSearch {
 public:
  void cut(std::size_t a, std::size_t b) {
    cuts_[a] |= std::uint32_t{1} << b;
    cuts_[b] |= std::uint32_t{1} << a;
  }

  std::uint32_t run(std::size_t count) {
    search((std::uint32_t{1} << count) - 1, 0);
    return best_;
  }

 private:
  /// Sets with the lowest node come first, so that the first of several largest ones is kept.
  void search(std::uint32_t candidates, std::uint32_t chosen) {
    if (std::popcount(chosen) + std::popcount(candidates) <= std::popcount(best_)) return;
    if (candidates == 0) {
      best_ = chosen;
      return;
    }
    const auto lowest = static_cast<std::size_t>(std::countr_zero(candidates));
    const auto rest = candidates & (candidates - 1);
    search(rest & ~cuts_[lowest], chosen | (std::uint32_t{1} << lowest));
    search(rest, chosen);
  }

  std::array<std::uint32_t, kExactNodesMax> cuts_{};
  std::uint32_t best_ = 0;
};

/// The remaining nodes, each with the nodes to which it has a cut.
class Graph {
 public:
  Graph(std::size_t count, const std::vector<CutPair>& cuts) : is_left_(count, true), cuts_(count) {
    for (const auto& [a, b] : cuts) {
      if (a == b) continue;
      cuts_[a].insert(b);
      cuts_[b].insert(a);
    }
  }

  void leave_out_unreachable_from(std::size_t node) {
    for (const auto other : std::set<std::size_t>(cuts_[node])) leave_out(other);
  }

  void leave_out(std::size_t node) {
    is_left_[node] = false;
    for (const auto other : cuts_[node]) cuts_[other].erase(node);
    cuts_[node].clear();
  }

  std::vector<std::size_t> nodes_with_cuts() const {
    std::vector<std::size_t> nodes;
    for (std::size_t node = 0; node < cuts_.size(); ++node) {
      if (!cuts_[node].empty()) nodes.push_back(node);
    }
    return nodes;
  }

  std::size_t most_cut_node() const {
    std::size_t most = 0;
    for (std::size_t node = 0; node < cuts_.size(); ++node) {
      if (cuts_[node].size() >= cuts_[most].size()) most = node;
    }
    return most;
  }

  /// Removes as few nodes as possible. REQUIRES: at most kExactNodesMax nodes have cuts.
  void leave_out_fewest() {
    const auto nodes = nodes_with_cuts();
    ExactSearch search;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (cuts_[nodes[i]].contains(nodes[j])) search.cut(i, j);
      }
    }
    const auto kept = search.run(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if ((kept >> i & 1) == 0) leave_out(nodes[i]);
    }
  }

  std::vector<std::size_t> left() const {
    std::vector<std::size_t> nodes;
    for (std::size_t node = 0; node < is_left_.size(); ++node) {
      if (is_left_[node]) nodes.push_back(node);
    }
    return nodes;
  }

 private:
  std::vector<bool> is_left_;
  std::vector<std::set<std::size_t>> cuts_;
};

}  // namespace

std::vector<std::size_t> largest_reachable_set(std::size_t count, const std::vector<CutPair>& cuts,
                                               std::optional<std::size_t> required) {
  Graph graph(count, cuts);
  if (required) graph.leave_out_unreachable_from(*required);
  while (graph.nodes_with_cuts().size() > kExactNodesMax) graph.leave_out(graph.most_cut_node());
  graph.leave_out_fewest();
  return graph.left();
}

}  // namespace ddprun::membership
