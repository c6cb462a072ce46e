// State of a simulated run, and its invariants.
#pragma once

#include "rendezvous/membership/action_queue.hpp"
#include "rendezvous/membership/coordination.hpp"
#include "tests/support/membership_simulator.hpp"
#include "tests/support/simulated_node.hpp"
#include "tests/support/virtual_time.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::test {

class SimulatedState : protected VirtualTime {
 public:
  using VirtualTime::VirtualTime;

 protected:
  void note(const std::string& text) {
    const auto time = std::chrono::duration_cast<milliseconds>(now_ - kBegin).count();
    outcome_.history.push_back(std::to_string(time) + " " + text);
  }
  void check(bool holds, const std::string& what) {
    if (!holds) outcome_.violations.push_back(what);
    if (!holds) note("VIOLATION: " + what);
  }

  void check_round(int index) {
    const Node& node = nodes_[static_cast<std::size_t>(index)];
    const auto key = std::pair(is_elected_ ? 0 : node.incarnation, node.round.round);
    const auto [known, is_new] = rounds_.emplace(key, node.round.nodes);
    check(is_new || known->second == node.round.nodes, "all see the same nodes in a round");
    check(node.round.nodes[static_cast<std::size_t>(node.round.node_rank)].name == node.name,
          "a node has the rank under which it is listed");
    const int count = static_cast<int>(node.round.nodes.size());
    check(count >= settings_.nodes_min && count <= settings_.nodes_max, "MIN to MAX nodes");
    for (const auto& other : nodes_) {
      if (&other == &node || !other.has_workers) continue;
      check(is_other_run(other, node.incarnation) || other.round.round != node.round.round ||
                other.round.node_rank != node.round.node_rank,
            "no two live workers have the same round and rank");
    }
  }

  /// When a round is formed, no node has workers of an older one, not even a stopped agent, unless
  /// its connection was reset or its agent killed a moment ago.
  void check_fences() {
    for (const auto& node : nodes_) {
      check(!node.has_workers || node.excused_until >= now_ || is_other_run(node, incarnation_),
            node.name + " has workers of an older round when the next is formed");
    }
  }

  /// Workers that have all succeeded are not started again.
  void check_success(const CoordinatorEvent& event, int round) {
    const auto* received = std::get_if<NodeMessageReceived>(&event);
    const auto* ended =
        received == nullptr ? nullptr : std::get_if<WorkersEnded>(&received->message);
    if (ended == nullptr || !ended->have_succeeded || ended->were_asked) return;
    if (!connections_.contains(received->node)) return;  // it is too late
    const auto nodes = rounds_.at({is_elected_ ? 0 : incarnation_, ended->round}).size();
    const bool have_all = ++successes_[{incarnation_, ended->round}] == nodes;
    check(!have_all || ended->round != round || coordination_->outcome(),
          "a run whose workers have succeeded ends");
  }

  /// With a window, the restarts within it count. Fast clocks make them slightly older.
  void check_budget(int before, bool has_joined) {
    const int used = coordination_->restarts_used();
    const auto& budget = settings_.restarts;
    if (budget.window.count() == 0) return check(used <= budget.max_restarts, "budget kept");
    if (has_joined || used == before) return;
    spent_.resize(static_cast<std::size_t>(before));  // lost without a record
    spent_.push_back(now_);
    const auto counts = std::count_if(spent_.begin(), spent_.end(), [&](Time when) {
      constexpr milliseconds kTolerance(2000);
      return (now_ - when) * 51 / 50 + kTolerance < budget.window;
    });
    check(counts <= budget.max_restarts, "budget of the window kept");
  }

  /// If no state outlives a coordinator, the next one cannot know its workers.
  bool is_other_run(const Node& node, int incarnation) const {
    return !is_elected_ && node.incarnation != incarnation;
  }

  Settings settings_;

  std::unique_ptr<Coordination> coordination_;
  ActionQueue queue_;  ///< among its decisions
  int incarnation_ = 0;
  std::optional<Time> coordinator_wake_;
  bool is_coordinator_paused_ = false;
  std::vector<CoordinatorEvent> coordinator_backlog_;
  std::map<NodeId, std::shared_ptr<Connection>> connections_;
  NodeId last_connection_ = 0;
  std::vector<Node> nodes_;
  bool is_faulty_ = true;
  bool is_harsh_ = false;  ///< with faults that the first simulations did not have
  int failure_percent_ = 0;
  bool has_leftovers_ = false;  ///< workers may leave processes that cannot be killed
  bool has_host_ = false;       ///< node0's agent hosts the coordinator
  bool is_elected_ = false;     ///< the coordinator, which leaves a record
  int host_ = 0;                ///< the node that hosts it then
  std::optional<RunRecord> record_;
  int worker_failures_ = 0;
  /// Start of the first workers of each round, by the coordinator's incarnation and the round.
  std::map<std::pair<int, int>, Time> round_begins_;
  std::vector<Time> spent_;  ///< times of the restarts
  std::map<std::pair<int, int>, std::vector<NodePlace>> rounds_;
  std::map<std::pair<int, int>, std::size_t> successes_;  ///< received, by incarnation and round
  std::optional<RunOutcome> run_outcome_;
  SimulationOutcome outcome_;
};

}  // namespace ddprun::test
