#include "tests/support/membership_simulator.hpp"

#include "tests/support/simulated_cuts.hpp"

namespace ddprun::test {

namespace {

class Simulation : public SimulatedCuts {
 public:
  struct Kind {
    bool has_skewed_clocks = false;
    bool is_elected = false;
    bool is_harsh = false;
    bool has_cuts = false;
    bool are_cuts_alone = false;
    bool do_cuts_stand = false;
    bool has_leftovers = false;
    bool is_quiet = false;  ///< no other faults occur
  };

  Simulation(std::uint64_t seed, Kind kind)
      : SimulatedCuts(seed),
        seed_(seed),
        has_skewed_clocks_(kind.has_skewed_clocks),
        do_cuts_stand_(kind.do_cuts_stand),
        is_quiet_(kind.do_cuts_stand || kind.is_quiet) {
    is_elected_ = kind.is_elected;
    is_harsh_ = kind.is_harsh;
    has_cuts_ = kind.has_cuts;
    are_cuts_alone_ = kind.are_cuts_alone;
    has_leftovers_ = kind.has_leftovers;
  }

  SimulationOutcome run() {
    choose_settings();
    if (has_skewed_clocks_) skew_clocks();
    boot_coordinator();
    if (is_elected_) begin_term();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const int node = static_cast<int>(i);
      const int start = any(0, is_quiet_ ? 500 : 5000);
      // The host exists as long as its coordinator.
      after(are_cuts_alone_ && node == 0 ? 0 : start, [this, node] { boot(node); });
    }
    const auto faults_end = now_ + milliseconds(60'000);
    if (!is_quiet_) {
      plan_fault(faults_end);
      at(faults_end, [this] { heal(); });
    }
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
    if (is_harsh_) choose_names_and_ranks();
    if (is_elected_) choose_for_successors();
    if (are_cuts_alone_) has_host_ = true;
    if (is_quiet_) choose_quiet();
    if (!do_cuts_stand_) return;
    for (int cuts = any(0, 4); cuts > 0; --cuts) cut_any_pair(std::chrono::hours(1));
  }

  /// All nodes join before the first round is formed.
  void choose_quiet() {
    settings_.nodes_max = static_cast<int>(nodes_.size());
    settings_.join_timeout = std::chrono::seconds(30);
    settings_.last_call_timeout = std::chrono::seconds(2);
    settings_.restarts.max_restarts = 0;
    failure_percent_ = 0;
  }

  void check_standing_cuts() {
    const auto most = most_together();
    const bool is_enough = std::cmp_greater_equal(most, settings_.nodes_min);
    const auto expected = is_enough ? RunResult::succeeded : RunResult::no_rendezvous;
    check(run_outcome_ && run_outcome_->result == expected,
          "the nodes that reach each other do the work");
    check(coordination_->restarts_used() == 0, "a cut costs no restart");
    if (!run_outcome_ || is_enough) return;
    check(run_outcome_->reason.find("cannot reach") != std::string::npos, "the cut is named");
    check(rounds_.empty(), "no round is formed of too few nodes");
  }

  void check_all_succeeded() {
    for (const auto& node : nodes_) {
      check(node.outcome && node.outcome->result == RunResult::succeeded,
            node.name + " has succeeded");
    }
  }

  /// State of a coordinator that its successor must restore.
  void choose_for_successors() {
    if (seed_ % 3 == 0) settings_.restarts.window = std::chrono::seconds(20);
    if (seed_ % 2 == 0) return;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      nodes_[i].lease = std::chrono::seconds(3 + 4 * static_cast<int>((seed_ + i) % 3));
    }
    settings_.lease = host().lease;
  }

  void choose_names_and_ranks() {
    const bool has_ranks = chance(40);
    for (int i = 0; i < settings_.nodes_max && has_ranks; ++i) {
      nodes_[static_cast<std::size_t>(i)].wanted_rank = i;
    }
    if (!chance(10)) return;
    for (auto& node : nodes_) node.name = "node";
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
    if (do_cuts_stand_) check_standing_cuts();
    if (is_quiet_ && has_leftovers_) check_all_succeeded();
    outcome_.rounds = static_cast<int>(rounds_.size());
    outcome_.restarts = coordination_ ? coordination_->restarts_used() : 0;
    constexpr const char* kNames[] = {"succeeded", "failed", "not_started", "interrupted",
                                      "no_rendezvous"};
    outcome_.result = run_outcome_ ? kNames[static_cast<int>(run_outcome_->result)] : "lost";
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
    if (are_cuts_alone_ || (has_cuts_ && chance(40))) {
      return cut_any_pair(milliseconds(any(100, 40'000)));
    }
    if (is_elected_ && coordination_ && index == host_) return disturb_host();
    Node& node = nodes_[static_cast<std::size_t>(index)];
    switch (any(0, 7)) {
      case 0:
        return kill_agent(index);
      case 1:
        pause(index);
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
      to_node(connection->node, connection->agent, ConnectionLost{"reset"}, connection);
    });
    after(any(0, static_cast<int>(kNotice.count())), [this, connection] {
      if (!std::exchange(connection->is_open_at_coordinator, false)) return;
      connections_.erase(connection->id);
      to_coordinator(NodeDisconnected{connection->id, "its connection was reset"});
    });
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
    if (!coordination_ || run_outcome_) return;
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
    has_lost_etcd_ = false;
    mend_pairs();
    if (!is_elected_) resume_coordinator();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      mend(static_cast<int>(i));
      if (is_elected_) resume_host(static_cast<int>(i));
      resume(static_cast<int>(i));
    }
  }

  const std::uint64_t seed_;
  const bool has_skewed_clocks_;
  const bool do_cuts_stand_;
  const bool is_quiet_;
};

}  // namespace

SimulationOutcome simulate_elections(std::uint64_t seed) {
  return Simulation(seed,
                    {.has_skewed_clocks = seed % 2 == 1, .is_elected = true, .is_harsh = true})
      .run();
}

SimulationOutcome simulate_cuts(std::uint64_t seed) {
  const bool are_alone = seed % 2 == 0;
  const bool is_elected = seed % 4 == 1;
  return Simulation(seed, {.has_skewed_clocks = seed % 8 >= 4,
                           .is_elected = is_elected,
                           .is_harsh = is_elected,
                           .has_cuts = true,
                           .are_cuts_alone = are_alone})
      .run();
}

SimulationOutcome simulate_standing_cuts(std::uint64_t seed) {
  return Simulation(seed, {.has_cuts = true, .are_cuts_alone = true, .do_cuts_stand = true}).run();
}

SimulationOutcome simulate_leftovers(std::uint64_t seed) {
  return Simulation(seed, {.has_skewed_clocks = seed % 8 >= 4,
                           .is_elected = seed % 4 == 3,
                           .has_leftovers = true,
                           .is_quiet = seed % 2 == 0})
      .run();
}

SimulationOutcome simulate_harshly(std::uint64_t seed) {
  return Simulation(seed, {.has_skewed_clocks = seed % 2 == 1, .is_harsh = true}).run();
}

SimulationOutcome simulate_membership(std::uint64_t seed, bool has_skewed_clocks) {
  return Simulation(seed, {.has_skewed_clocks = has_skewed_clocks}).run();
}

}  // namespace ddprun::test
