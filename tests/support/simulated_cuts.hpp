// Partial cuts of a simulated run: two nodes that reach the coordinator but cannot connect to each
// other, in one direction or both. Workers of a round fail at them.
#pragma once

#include "rendezvous/membership/reachable_set.hpp"
#include "tests/support/simulated_elections.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace ddprun::test {

class SimulatedCuts : public SimulatedElections {
 public:
  using SimulatedElections::SimulatedElections;

 protected:
  /// A cut of this age existed before the nodes were probed for a round.
  static constexpr milliseconds kStanding{10'000};

  ProbeAddress probe_address_of(int index) const override {
    if (!has_cuts_) return {};
    return {.host = "10.0.0.1", .port = static_cast<std::uint16_t>(index + 1)};
  }

  /// Packets of one direction or both are lost.
  void cut_pair(int from, int to) {
    const bool is_one_way = chance(40);
    cuts_.insert_or_assign({from, to}, now_);
    if (!is_one_way) cuts_.insert_or_assign({to, from}, now_);
    note(nodes_[static_cast<std::size_t>(from)].name + (is_one_way ? " cannot reach " : " and ") +
         nodes_[static_cast<std::size_t>(to)].name +
         (is_one_way ? "" : " cannot reach each other"));
    for (const int index : {from, to}) {
      const Node& node = nodes_[static_cast<std::size_t>(index)];
      if (node.has_workers) meet_peers(index, node.life);
    }
  }

  void mend_pair(int from, int to) {
    const auto mended = cuts_.erase({from, to}) + cuts_.erase({to, from});
    if (mended == 0) return;
    note("a cut is mended");
    // Workers may have failed at it although later probes cannot show it.
    ++worker_failures_;
  }

  void mend_pairs() {
    for (const auto& [pair, since] : std::map(cuts_)) mend_pair(pair.first, pair.second);
  }

  /// Any two nodes except for the host, node 0.
  void cut_any_pair(milliseconds time) {
    const int count = static_cast<int>(nodes_.size());
    if (count < 3) return;
    const int from = any(1, count - 1);
    const int to = 1 + (from - 1 + any(1, count - 2)) % (count - 1);
    cut_pair(from, to);
    after(time, [this, from, to] { mend_pair(from, to); });
  }

  bool is_pair_cut(int a, int b) const { return cuts_.contains({a, b}) || cuts_.contains({b, a}); }

  /// Workers of a round need connections between all nodes whose workers have not succeeded.
  void meet_peers(int index, int life) override {
    if (!has_cuts_) return;
    for (int peer = 0; peer < static_cast<int>(nodes_.size()); ++peer) {
      if (is_pair_cut(index, peer)) check_pair(index, peer);
    }
    after(any(500, 6000), [this, index, life] {
      const Node& node = nodes_[static_cast<std::size_t>(index)];
      if (!node.has_workers || node.life != life || node.are_ending) return;
      for (int peer = 0; peer < static_cast<int>(nodes_.size()); ++peer) {
        if (!is_pair_cut(index, peer) || !are_together(index, peer)) continue;
        if (!are_cuts_alone_) ++worker_failures_;
        return fail_workers(index, life, true);
      }
    });
  }

  /// The nodes that could form a round if all were present.
  std::size_t most_together() const {
    std::vector<CutPair> cuts;
    for (const auto& [pair, since] : cuts_) cuts.emplace_back(pair.first, pair.second);
    return largest_reachable_set(nodes_.size(), cuts, 0).size();
  }

  std::vector<std::uint32_t> unreachable_from(int index, const Probe& probe) const override {
    std::vector<std::uint32_t> unreachable;
    for (std::size_t i = 0; i < probe.peers.size(); ++i) {
      if (probe.peers[i].port == 0) continue;
      const int peer = probe.peers[i].port - 1;
      const bool is_cut_off = nodes_[static_cast<std::size_t>(index)].is_cut ||
                              nodes_[static_cast<std::size_t>(peer)].is_cut;
      if (is_cut_off || cuts_.contains({index, peer}))
        unreachable.push_back(static_cast<std::uint32_t>(i));
    }
    return unreachable;
  }

  bool has_cuts_ = false;
  bool are_cuts_alone_ = false;  ///< no other faults of nodes and network

 private:
  bool are_together(int a, int b) const {
    const Node& first = nodes_[static_cast<std::size_t>(a)];
    const Node& second = nodes_[static_cast<std::size_t>(b)];
    const auto& names = first.round.nodes;
    return first.has_workers && second.has_workers &&
           std::any_of(names.begin(), names.end(),
                       [&](const auto& place) { return place.name == second.name; });
  }

  void check_pair(int a, int b) {
    if (!are_cuts_alone_ || !are_together(a, b)) return;
    for (const auto& pair : {std::pair(a, b), std::pair(b, a)}) {
      const auto cut = cuts_.find(pair);
      check(cut == cuts_.end() || now_ - cut->second < kStanding,
            "no round has two nodes that have long been unable to reach each other");
    }
  }

  std::map<std::pair<int, int>, Time> cuts_;  ///< from, to; and the start
};

}  // namespace ddprun::test
