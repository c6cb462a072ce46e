#include "tests/support/membership_simulator.hpp"

#include "tests/support/simulated_run.hpp"

namespace ddprun::test {

namespace {

class Simulation : public SimulatedRun {
 public:
  Simulation(std::uint64_t seed, bool has_skewed_clocks, bool is_elected = false)
      : SimulatedRun(seed), has_skewed_clocks_(has_skewed_clocks) {
    is_elected_ = is_elected;
  }

  SimulationOutcome run() {
    choose_settings();
    if (has_skewed_clocks_) skew_clocks();
    boot_coordinator();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const int node = static_cast<int>(i);
      after(any(0, 5000), [this, node] { boot(node); });
    }
    const auto faults_end = now_ + milliseconds(60'000);
    plan_fault(faults_end);
    at(faults_end, [this] { heal(); });
    const auto limit = faults_end + std::chrono::seconds(400);
    play_until(limit, [this] { return outcome_.violations.empty(); });
    if (outcome_.violations.empty()) check_end();
    outcome_.virtual_seconds = std::chrono::duration<double>(now_ - kBegin).count();
    return std::move(outcome_);
  }

 private:
  void choose_settings() {
    const int count = any(1, 5);
    nodes_.resize(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) {
      nodes_[static_cast<std::size_t>(i)].name = "node" + std::to_string(i);
    }
    settings_.run_id = "simulated";
    settings_.nodes_max = any(1, count);
    settings_.nodes_min = any(1, settings_.nodes_max);
    settings_.restarts.max_restarts = any(0, 4);
    settings_.join_timeout = std::chrono::seconds(any(5, 40));
    settings_.last_call_timeout = milliseconds(any(0, 4000));
    settings_.rejoin_timeout = std::chrono::seconds(any(3, 20));
    settings_.exit_barrier_timeout = std::chrono::seconds(any(1, 60));
    failure_percent_ = any(0, 60);
    has_host_ = !is_elected_ && chance(30);
  }

  void skew_clocks() {
    for (auto& node : nodes_) {
      node.clock.ahead = std::chrono::minutes(any(-50, 5000));
      node.clock.fast_permille = any(-20, 20);
    }
  }

  void check_end() {
    for (const auto& node : nodes_) {
      check(!node.part, node.name + " has not ended");
      check(!node.has_workers, node.name + " has left workers");
    }
    check(!coordination_ || coordination_->is_over(), "the coordinator has not ended");
    outcome_.rounds = static_cast<int>(rounds_.size());
    outcome_.restarts = coordination_ ? coordination_->restarts_used() : 0;
    constexpr const char* kNames[] = {"succeeded", "failed", "not_started", "interrupted",
                                      "no_quorum"};
    outcome_.verdict = verdict_ ? kNames[static_cast<int>(verdict_->result)] : "lost";
  }

  // Faults.

  void plan_fault(Time end) {
    after(any(500, 8000), [this, end] {
      if (now_ >= end) return;
      ++outcome_.faults;
      inject(any(0, static_cast<int>(nodes_.size()) - 1));
      plan_fault(end);
    });
  }

  void inject(int index) {
    if (is_elected_ && coordination_ && index == host_) return disturb_host();
    Node& node = nodes_[static_cast<std::size_t>(index)];
    switch (any(0, 7)) {
      case 0:
        return kill_agent(index);
      case 1:
        note(node.name + " is paused");
        node.is_paused = true;
        if (node.excused_until >= now_) node.excused_until = fence_of(node);
        return after(any(100, 9000), [this, index] { resume(index); });
      case 2:
        return cut(index);
      case 3:
        return reset_connection(index);
      case 4:
        if (!node.part || node.is_paused) return;
        note(node.name + " is asked to leave");
        return leave(index);
      case 5:
        return boot(index);
      case 6:
        if (!chance(30) || is_elected_) return;
        return pause_coordinator();
      default:
        if (chance(30) && !is_elected_) restart_coordinator();
    }
  }

  // A coordinator that was elected.

  /// What can befall its node: its agent is killed, it loses etcd, or it is asked to leave.
  void disturb_host() {
    if (verdict_) return;
    const int host = host_;
    // What befalls a network befalls more than one.
    const int other = any(0, static_cast<int>(nodes_.size()) - 1);
    if (other != host && chance(50)) cut(other);
    const int kind = any(0, 2);
    if (kind == 0) {
      drop_coordinator("the host is lost");
      kill_agent(host);
      return elect_later(1500, 3500);
    }
    if (kind == 1) {
      drop_coordinator("the host loses its office");
      return elect_later(350, 3000);
    }
    note("the host is asked to leave");
    to_coordinator(HostLeaves{"the host leaves"});
    leave(host);
    hand_over();
  }

  /// Once no node has workers.
  void hand_over() {
    if (!coordination_ || verdict_) return;
    if (!coordination_->is_over()) return after(milliseconds(10), [this] { hand_over(); });
    drop_coordinator("the host hands over");
    elect_later(1, 500);
  }

  /// The host's own agent learns of it at once, the others by the network.
  void drop_coordinator(const std::string& why) {
    note(why);
    coordination_.reset();
    coordinator_wake_.reset();
    ++incarnation_;
    const auto connections = connections_;
    for (const auto& [id, connection] : connections) {
      if (connection->node == host_) close_for_host(connection);
      close_at_coordinator(id);
    }
  }

  void close_for_host(const std::shared_ptr<Connection>& connection) {
    if (!std::exchange(connection->is_open_at_node, false)) return;
    nodes_[static_cast<std::size_t>(host_)].connection.reset();
    to_node(host_, connection->agent, ConnectionLost{"the office has ended"});
  }

  void elect_later(int least, int most) {
    after(any(least, most), [this, incarnation = incarnation_] {
      if (coordination_ || verdict_ || incarnation != incarnation_) return;
      std::vector<int> candidates;
      for (std::size_t i = 0; i < nodes_.size(); ++i) {
        const Node& node = nodes_[i];
        const bool is_free = node.part && !node.has_workers && !node.is_paused && !node.is_cut;
        if (is_free) candidates.push_back(static_cast<int>(i));
      }
      if (candidates.empty()) return elect_later(100, 500);
      host_ = candidates[static_cast<std::size_t>(any(0, static_cast<int>(candidates.size()) - 1))];
      note(nodes_[static_cast<std::size_t>(host_)].name + " is elected");
      boot_coordinator();
    });
  }

  /// Whoever loses its connection while its agent is stopped has workers until then; the store of a
  /// later round does not let them in.
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

  void resume(int index) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    if (!node.is_paused) return;
    note(node.name + " goes on");
    node.is_paused = false;
    for (const auto& event : std::exchange(node.backlog, {})) to_node(index, node.agent, event);
  }

  /// What the network has held arrives now, in its order.
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

  void reset_connection(int index) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    const auto connection = node.connection;
    if (!connection || !connection->is_open_at_node || node.is_cut) return;
    note(node.name + "'s connection is reset");
    node.excused_until = node.is_paused ? fence_of(node) : now_ + kNotice + kKill;
    after(any(0, static_cast<int>(kNotice.count())), [this, connection] {
      Node& later = nodes_[static_cast<std::size_t>(connection->node)];
      if (later.connection != connection || !connection->is_open_at_node) return;
      connection->is_open_at_node = false;
      to_node(connection->node, connection->agent, ConnectionLost{"reset"});
    });
    after(any(0, static_cast<int>(kNotice.count())), [this, connection] {
      if (!std::exchange(connection->is_open_at_coordinator, false)) return;
      connections_.erase(connection->id);
      to_coordinator(NodeGone{connection->id, "its connection was reset"});
    });
  }

  void leave(int index) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    to_node(index, node.agent, AskedToLeave{"was asked to stop"});
    if (!node.has_workers || std::exchange(node.are_ending, true)) return;
    after(any(1, 2000),
          [this, index, life = node.life] { workers_end(index, life, OwnWorkersEnded{}); });
  }

  void pause_coordinator() {
    note("the coordinator is paused");
    is_coordinator_paused_ = true;
    after(any(100, 5000), [this] { resume_coordinator(); });
  }

  void resume_coordinator() {
    if (!std::exchange(is_coordinator_paused_, false)) return;
    note("the coordinator goes on");
    for (const auto& event : std::exchange(coordinator_backlog_, {})) to_coordinator(event);
  }

  void restart_coordinator() {
    if (!coordination_ || verdict_) return;
    note("the coordinator is killed");
    is_coordinator_paused_ = false;
    coordinator_backlog_.clear();
    coordination_.reset();
    coordinator_wake_.reset();
    ++incarnation_;
    for (auto& node : nodes_) node.excused_until = now_ + std::chrono::seconds(1);
    std::vector<NodeId> ids;
    for (const auto& [id, connection] : connections_) ids.push_back(id);
    for (const NodeId id : ids) close_at_coordinator(id);
    if (chance(60)) {
      after(any(50, 10'000), [this] {
        if (!coordination_) boot_coordinator();
      });
    }
  }

  void heal() {
    note("no more faults");
    is_faulty_ = false;
    resume_coordinator();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      mend(static_cast<int>(i));
      resume(static_cast<int>(i));
    }
  }

  const bool has_skewed_clocks_;
};

}  // namespace

SimulationOutcome simulate_elections(std::uint64_t seed) {
  return Simulation(seed, seed % 2 == 1, true).run();
}

SimulationOutcome simulate_membership(std::uint64_t seed, bool has_skewed_clocks) {
  return Simulation(seed, has_skewed_clocks).run();
}

}  // namespace ddprun::test
