// Faults of the nodes of a simulated run: agents are killed, stopped and asked to leave, and the
// network between them and the coordinator is cut.
#pragma once

#include "tests/support/simulated_run.hpp"

#include <utility>

namespace ddprun::test {

class SimulatedFaults : public SimulatedRun {
 public:
  using SimulatedRun::SimulatedRun;

 protected:
  /// A node that loses its connection while its agent is stopped keeps its workers until then; the
  /// store of a later round rejects them.
  static Time fence_of(const Node& node) {
    if (node.guarded_until == Time::max()) return Time::max();  // the run has ended
    return node.clock.when_it_shows(node.guarded_until) + kKill;
  }

  void kill_agent(int index) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    if (!node.part) return;
    note(node.name + "'s agent is killed");
    node.part.reset();
    node.backlog.clear();
    close_at_node(index);
    node.is_paused = false;
    // The guardian kills its workers.
    node.excused_until = now_ + kKill;
    after(any(1, static_cast<int>(kKill.count())),
          [this, index, life = node.life] { workers_end(index, life, OwnWorkersEnded{}); });
    if (chance(50)) after(any(200, 8000), [this, index] { boot(index); });
  }

  void pause(int index) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    note(node.name + " is paused");
    node.is_paused = true;
    if (node.excused_until >= now_) node.excused_until = fence_of(node);
  }

  void resume(int index) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    if (!node.is_paused) return;
    note(node.name + " goes on");
    node.is_paused = false;
    for (const auto& unread : std::exchange(node.backlog, {})) {
      const bool is_given_up = unread.connection && unread.connection != node.connection;
      if (!is_given_up) to_node(index, node.agent, unread.event, unread.connection);
    }
  }

  /// Delivers the held messages of the network in their order.
  void mend(int index) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    node.is_cut = false;
    for (auto& arrive : std::exchange(node.held, {})) arrive();
  }

  void cut(int index) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    note(node.name + " is cut off");
    node.is_cut = true;
    after(any(100, 9000), [this, index] { mend(index); });
  }

  void leave(int index) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    to_node(index, node.agent, AskedToLeave{"was asked to stop"});
    if (!node.has_workers || std::exchange(node.are_ending, true)) return;
    after(any(1, 2000),
          [this, index, life = node.life] { workers_end(index, life, OwnWorkersEnded{}); });
  }
};

}  // namespace ddprun::test
