// The real decisions of a coordinator and of nodes with a simulated network and simulated workers;
// invariants are checked at each step. membership_simulator.cpp injects the faults.
#pragma once

#include "rendezvous/membership/outsider.hpp"
#include "tests/support/simulated_state.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace ddprun::test {

class SimulatedRun : protected SimulatedState {
 public:
  using SimulatedState::SimulatedState;
  virtual ~SimulatedRun() = default;

 protected:
  // The coordinator.

  void boot_coordinator() {
    ++incarnation_;
    queue_ = {};
    note("the coordinator begins");
    coordination_ = record_ ? std::make_unique<Coordination>(settings_, *record_, now_)
                            : std::make_unique<Coordination>(settings_, now_);
    plan_coordinator_wake();
  }

  void plan_coordinator_wake() {
    const auto wake = coordination_->next_wake();
    if (!wake || coordinator_wake_ == wake) return;
    coordinator_wake_ = wake;
    at(*wake, [this, when = *wake, incarnation = incarnation_] {
      if (incarnation != incarnation_ || !coordination_) return;
      if (coordinator_wake_ == when) coordinator_wake_.reset();
      to_coordinator(TimePassed{});
    });
  }

  void to_coordinator(const CoordinatorEvent& event) {
    if (!coordination_) return;
    if (is_coordinator_paused_) return coordinator_backlog_.push_back(event);
    const int before = coordination_->restarts_used();
    const int round = coordination_->round();
    queue_.add(coordination_->apply(event, now_));
    const bool has_joined =
        std::holds_alternative<NodeMessageReceived>(event) &&
        std::holds_alternative<Join>(std::get<NodeMessageReceived>(event).message);
    check(has_joined || coordination_->restarts_used() <= before + 1,
          "one event costs one restart at most");
    check_budget(before, has_joined);
    check(coordination_->restarts_used() <= worker_failures_, "restarts are paid for by failures");
    check(coordination_->round() >= round, "rounds do not go back");
    check_success(event, round);
    if (coordination_->outcome() && !run_outcome_) {
      run_outcome_ = *coordination_->outcome();
      note("outcome: " + run_outcome_->reason);
    }
    const auto wake = coordination_->next_wake();
    check(!wake || *wake > now_, "nothing is due after an event");
    plan_coordinator_wake();
    perform();
  }

  void perform() {
    while (const auto action = queue_.next()) {
      if (const auto* send = std::get_if<SendToNode>(&*action))
        send_to_node(send->node, send->message);
      if (const auto* close_connection = std::get_if<CloseConnection>(&*action))
        close_at_coordinator(close_connection->node);
      if (std::holds_alternative<ClearStore>(*action)) check_fences();
      if (const auto* kept = std::get_if<KeepRecord>(&*action)) keep(*kept);
    }
  }

  /// State that can outlive the coordinator.
  virtual void keep(const KeepRecord&) { queue_.kept(); }

  /// End of the term of the coordinator that this node's agent connects to.
  virtual Time term_end_for(const Node&) const { return Time::max(); }

  /// Port 0: the node takes part without being probed.
  virtual ProbeAddress probe_address_of(int) const { return {}; }

  /// Indices of nodes that the node cannot connect to.
  virtual std::vector<std::uint32_t> unreachable_from(int, const Probe&) const { return {}; }

  /// A node whose agent leaves by its own decision.
  virtual void resign(int /*index*/) {}

  /// A node's workers have started.
  virtual void meet_peers(int /*index*/, int /*life*/) {}

  void send_to_node(NodeId id, const CoordinatorMessage& message) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    const auto connection = found->second;
    const auto when = std::max(now_ + delay(), connection->last_to_node);
    connection->last_to_node = when;
    arrive_at_node(connection, MessageReceived{message}, when);
  }

  /// A cut connection delivers nothing until the cut ends; the order is kept.
  void arrive_at_node(const std::shared_ptr<Connection>& connection, const NodeEvent& event,
                      Time when) {
    at(when, [this, connection, event] {
      Node& node = nodes_[static_cast<std::size_t>(connection->node)];
      if (node.connection != connection || !connection->is_open_at_node) return;
      if (node.is_cut) {
        return node.held.push_back([=, this] { arrive_at_node(connection, event, now_); });
      }
      if (std::holds_alternative<ConnectionLost>(event)) connection->is_open_at_node = false;
      to_node(connection->node, connection->agent, event, connection);
    });
  }

  void close_at_coordinator(NodeId id) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;
    const auto connection = found->second;
    connections_.erase(found);
    connection->is_open_at_coordinator = false;
    connection->last_to_node = std::max(now_ + delay(), connection->last_to_node);
    arrive_at_node(connection, ConnectionLost{"closed by the coordinator"},
                   connection->last_to_node);
  }

  // The nodes.

  void boot(int index) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    if (node.part || node.has_workers) return;
    ++node.agent;
    node.is_paused = false;
    node.backlog.clear();
    node.planned_wake.reset();
    node.outcome.reset();
    node.has_leftover = false;
    node.connection.reset();
    note(node.name + " begins");
    const Join join{.run_id = settings_.run_id,
                    .name = node.name,
                    .instance = instance_of(node),
                    .node_rank = node.wanted_rank,
                    .local_world_size = index + 1,
                    .nodes_min = settings_.nodes_min,
                    .nodes_max = settings_.nodes_max,
                    .max_restarts = settings_.restarts.max_restarts,
                    .is_host = has_host_ && index == 0};
    node.part = std::make_unique<NodeStateMachine>(join, settings_, node.clock.shows(now_));
    carry_out(index, node.part->start(node.clock.shows(now_)));
  }

  /// Differs for each agent of each node.
  std::uint64_t instance_of(const Node& node) const {
    const auto index = static_cast<std::uint64_t>(&node - nodes_.data());
    return (index + 1) << 32 | static_cast<std::uint64_t>(node.agent);
  }

  void to_node(int index, int agent, const NodeEvent& event,
               const std::shared_ptr<Connection>& connection = nullptr) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    if (!node.part || node.agent != agent) return;
    if (node.is_paused) return node.backlog.push_back({event, connection});
    carry_out(index, node.part->apply(event, node.clock.shows(now_)));
    plan_wake(index);
  }

  void plan_wake(int index) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    const auto wake = node.part ? node.part->next_wake() : std::nullopt;
    if (!wake || node.planned_wake == wake) return;
    node.planned_wake = wake;
    const Time due = node.clock.when_it_shows(*wake);
    at(due, [this, index, agent = node.agent, when = *wake] {
      Node& later = nodes_[static_cast<std::size_t>(index)];
      if (later.agent == agent && later.planned_wake == when) later.planned_wake.reset();
      to_node(index, agent, NodeTimePassed{});
    });
  }

  void carry_out(int index, const std::vector<NodeAction>& actions) {
    for (const auto& action : actions) {
      std::visit([&](const auto& value) { act(index, value); }, action);
    }
  }

  void act(int index, const Connect& connect) {
    const Node& connecting = nodes_[static_cast<std::size_t>(index)];
    const int agent = connecting.agent;
    at(connecting.clock.when_it_shows(connect.not_before), [this, index, agent] {
      Node& node = nodes_[static_cast<std::size_t>(index)];
      if (!node.part || node.agent != agent) return;
      if (node.is_cut) {
        return after(kConnectTimeout,
                     [=, this] { to_node(index, agent, ConnectionLost{"timed out"}); });
      }
      if (is_elected_ && run_outcome_ && (!coordination_ || coordination_->is_over())) {
        return after(delay(), [=, this] { to_node(index, agent, JoinRejected{*run_outcome_}); });
      }
      if (!coordination_ || coordination_->is_over()) {
        return after(delay(), [=, this] { to_node(index, agent, ConnectionLost{"refused"}); });
      }
      auto connection = std::make_shared<Connection>();
      *connection = {
          .id = ++last_connection_, .node = index, .agent = agent, .incarnation = incarnation_};
      connections_[connection->id] = connection;
      node.connection = connection;
      connection->last_to_node = now_ + delay();
      arrive_at_node(connection,
                     Connected{.term_end = term_end_for(node), .probe = probe_address_of(index)},
                     connection->last_to_node);
    });
  }

  void act(int index, const Disconnect&) { close_at_node(index); }

  void close_at_node(int index) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    const auto connection = std::exchange(node.connection, nullptr);
    if (!connection || !connection->is_open_at_node) return;
    connection->is_open_at_node = false;
    // The notification may be lost, or arrive long after those of another connection.
    const auto late = milliseconds(is_faulty_ && is_harsh_ && chance(15) ? any(0, 5000) : 0);
    const auto when = std::max(now_ + late + delay(), connection->last_to_coordinator);
    connection->last_to_coordinator = when;
    arrive_at_coordinator(connection, NodeDisconnected{connection->id, "its connection was closed"},
                          when);
  }

  void arrive_at_coordinator(const std::shared_ptr<Connection>& connection,
                             const CoordinatorEvent& event, Time when) {
    at(when, [this, connection, event] {
      if (!connection->is_open_at_coordinator) return;
      if (connection->incarnation != incarnation_) return;
      Node& node = nodes_[static_cast<std::size_t>(connection->node)];
      if (node.is_cut) {
        return node.held.push_back([=, this] { arrive_at_coordinator(connection, event, now_); });
      }
      if (std::holds_alternative<NodeDisconnected>(event)) {
        connection->is_open_at_coordinator = false;
        connections_.erase(connection->id);
      }
      to_coordinator(event);
    });
  }

  void act(int index, const Send& send) {
    const auto connection = nodes_[static_cast<std::size_t>(index)].connection;
    if (!connection) return;
    const auto when = std::max(now_ + delay(), connection->last_to_coordinator);
    connection->last_to_coordinator = when;
    arrive_at_coordinator(connection, NodeMessageReceived{connection->id, send.message}, when);
  }

  void act(int index, const Announce& announce) {
    const bool is_held_back = announce.text.find("has joined and left") != std::string::npos;
    if (is_held_back) note(nodes_[static_cast<std::size_t>(index)].name + " is held back");
    const bool is_left_out = announce.text.find("begins without") != std::string::npos;
    if (is_left_out) note("a node is left out");
  }

  /// Ranks of the node wait for others, from time to time.
  void plan_wait(int index, int life, Time since) {
    after(any(10, 3000), [=, this] {
      const Node& node = nodes_[static_cast<std::size_t>(index)];
      if (!node.has_workers || node.life != life) return;
      const bool waits = chance(70);
      const auto time = waits ? std::chrono::floor<milliseconds>(now_ - since) : milliseconds(0);
      to_node(index, node.agent,
              OwnActivity{{.wait = time,
                           .work_share = any(1, kWholeWorkShare),
                           .are_all_waiting = chance(50)}});
      if (waits && chance(20)) {
        to_node(index, node.agent, HangNotice{.time = time, .ranks = {{0, "sleeps"}}});
        to_node(index, node.agent, SlowRankNotice{.is_slow = true});
        to_node(index, node.agent, StacksNotice{.stacks = {{.lines = {"main"}}}});
      }
      plan_wait(index, life, waits ? since : now_);
    });
  }

  void act(int index, const NoteActivity& others) {
    const Node& node = nodes_[static_cast<std::size_t>(index)];
    const auto begin = round_begins_.find({node.incarnation, node.round.round});
    const auto [wait, share, are_all_waiting] = others.activity;
    check(share == -1 || (share >= 1 && share <= kWholeWorkShare),
          "a work share is a part of 1000");
    if (wait.count() == 0 || begin == round_begins_.end()) return;
    check(now_ - wait >= begin->second,
          node.name + " is notified of waits that are not older than its round");
    note(node.name + " is notified of a wait");
  }

  void act(int index, const NoteHang& noted) {
    const Node& node = nodes_[static_cast<std::size_t>(index)];
    check(noted.notice.round >= node.round.round,
          node.name + " is not notified of a hang in earlier rounds");
    note(node.name + " is notified of a hang");
  }

  void act(int index, const NoteSlowRank& noted) {
    const Node& node = nodes_[static_cast<std::size_t>(index)];
    check(noted.notice.round >= node.round.round,
          node.name + " is not notified of a slow rank in earlier rounds");
  }

  void act(int index, const NoteStacks& noted) {
    const Node& node = nodes_[static_cast<std::size_t>(index)];
    check(noted.notice.round >= node.round.round, node.name + " gets no stacks of earlier rounds");
  }

  void act(int index, const ProbePeers& probing) {
    const int agent = nodes_[static_cast<std::size_t>(index)].agent;
    const auto unreachable = unreachable_from(index, probing.probe);
    // A firewall may drop packets, or reject them at once.
    const bool is_refused = unreachable.empty() || chance(50);
    after(is_refused ? delay() : probing.probe.timeout, [=, this] {
      to_node(index, agent, PeersProbed{probing.serial, unreachable});
    });
  }

  /// Its guardian kills the workers, in any state of the agent.
  void act(int index, const GuardUntil& guard) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    node.guarded_until = guard.end;
    if (guard.end == Time::max()) return;
    const Time due = node.clock.when_it_shows(guard.end);
    at(due, [this, index, end = guard.end, agent = node.agent] {
      Node& later = nodes_[static_cast<std::size_t>(index)];
      if (later.agent != agent || later.guarded_until != end || !later.has_workers) return;
      note(later.name + "'s guardian kills its workers");
      after(any(1, static_cast<int>(kKill.count())),
            [this, index, life = later.life] { workers_end(index, life, OwnWorkersEnded{}); });
    });
  }

  void act(int index, const AnnounceRound& round) {
    note(nodes_[static_cast<std::size_t>(index)].name + " expects round " +
         std::to_string(round.next.round) + ": " + round.next.reason);
  }

  void act(int index, const Resign&) {
    note(nodes_[static_cast<std::size_t>(index)].name + " leaves with a process left");
    resign(index);
  }

  void act(int index, const EndRun& end) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    check(!node.has_workers, node.name + " ends while it has workers");
    const auto& reason = end.outcome.reason;
    const bool is_refusal =
        end.outcome.result == RunResult::no_rendezvous && end.outcome.scope == OutcomeScope::node;
    check(!is_refusal || reason.find("the run has ended") != reason.npos,
          node.name + " is refused its own place");
    note(node.name + " ends: " + end.outcome.reason);
    node.outcome = end.outcome;
    node.part.reset();
    const bool is_shared = end.outcome.result != RunResult::no_rendezvous &&
                           end.outcome.result != RunResult::interrupted;
    const bool is_release = end.outcome.result == RunResult::succeeded && !run_outcome_;
    if (is_shared && !is_release && run_outcome_) {
      check(end.outcome == *run_outcome_ || end.outcome.result == RunResult::succeeded,
            node.name + " ends with the outcome of all");
    }
    close_at_node(index);
  }

  // Workers.

  void act(int index, const StartWorkers& start) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    check(!node.has_workers, node.name + " starts workers beside others");
    check(!node.has_leftover, node.name + " starts workers beside what others have left");
    node.has_workers = true;
    node.are_ending = false;
    node.round = start.round;
    node.incarnation = incarnation_;
    const int life = ++node.life;
    note(node.name + " starts round " + std::to_string(start.round.round) + " as " +
         std::to_string(start.round.node_rank) + " of " + std::to_string(start.round.nodes.size()));
    check_round(index);
    round_begins_.try_emplace({incarnation_, start.round.round}, now_);
    meet_peers(index, life);
    plan_wait(index, life, now_);
    const bool fails = is_faulty_ && chance(failure_percent_);
    after(fails ? any(10, 20'000) : any(5000, 30'000), [this, index, life, fails] {
      const Node& later = nodes_[static_cast<std::size_t>(index)];
      if (!later.has_workers || later.life != life || later.are_ending) return;
      if (!fails) return workers_end(index, life, OwnWorkersEnded{.have_succeeded = true});
      ++worker_failures_;
      fail_workers(index, life, false);
    });
  }

  void fail_workers(int index, int life, bool is_victim) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    if (!node.has_workers || node.life != life || node.are_ending) return;
    node.are_ending = true;
    note(node.name + "'s workers fail" + (is_victim ? " with their peers" : ""));
    disturb_peers(index);
    const Failure failure{.is_victim = is_victim,
                          .ran_seconds = 10,
                          .description = "a worker of " + node.name + " failed",
                          .node = node.name};
    to_node(index, node.agent, OwnWorkersFailing{failure.description});
    after(any(1, 1500),
          [=, this] { workers_end(index, life, OwnWorkersEnded{.failures = {failure}}); });
  }

  /// Workers that communicate with dead workers eventually fail, too.
  void disturb_peers(int index) {
    const Node& gone = nodes_[static_cast<std::size_t>(index)];
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Node& peer = nodes_[i];
      const bool is_peer = peer.has_workers && peer.incarnation == gone.incarnation &&
                           peer.round.round == gone.round.round;
      if (!is_peer || static_cast<int>(i) == index || !chance(70)) continue;
      after(any(0, 800), [this, peer_index = static_cast<int>(i), life = peer.life] {
        // Fails because of a lost node, a leave or a failure that is counted elsewhere.
        fail_workers(peer_index, life, true);
      });
    }
  }

  void workers_end(int index, int life, OwnWorkersEnded ended) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    if (!node.has_workers || node.life != life) return;
    node.has_workers = false;
    node.has_leftover = has_leftovers_ && chance(40);
    if (node.has_leftover) ended.still_running = "process 7 is still running";
    note(node.name + "'s workers have ended" + (ended.have_succeeded ? " with success" : "") +
         (node.has_leftover ? ", and have left a process" : ""));
    if (!ended.have_succeeded) disturb_peers(index);
    to_node(index, node.agent, ended);
  }

  void act(int index, const EndWorkers& end) {
    Node& node = nodes_[static_cast<std::size_t>(index)];
    const bool was_ending = std::exchange(node.are_ending, true);
    if (end.at_once) node.excused_until = now_ + kKill;
    if (was_ending && !end.at_once) return;
    after(end.at_once ? any(1, static_cast<int>(kKill.count())) : any(1, 2000),
          [this, index, life = node.life] { workers_end(index, life, OwnWorkersEnded{}); });
  }
};

}  // namespace ddprun::test
