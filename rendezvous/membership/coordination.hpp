// Who is in the run, in which round and as which rank, when a round ends and why, and how the run
// ends: all that the coordinator of a run decides. A value that takes events and answers with
// actions; it has no clock and does no I/O, so the same decisions serve the program and the
// simulator.
//
//   gathering --enough nodes--> running --all workers succeeded--> finished
//       ^                          |  a worker failed, a node came, left or was lost
//       '--------- restart --- stopping --no restarts left, interrupted--> finished
//
// Before a round is formed, and when one fails, each node connects to each other one: a round is
// formed of the largest set of nodes that can all reach each other.
//
// A round ends on all nodes before the next one is formed: each has said that its workers have
// ended, has closed its connection, or has let its lease run out, by which time it has killed them.
#pragma once

#include "rendezvous/membership/duplicate_agents.hpp"
#include "rendezvous/membership/failover_state.hpp"
#include "rendezvous/membership/flapping_nodes.hpp"
#include "rendezvous/membership/messages.hpp"
#include "rendezvous/membership/node_choice.hpp"
#include "rendezvous/membership/reachability.hpp"
#include "rendezvous/membership/restart_budget.hpp"
#include "rendezvous/membership/roster.hpp"
#include "rendezvous/membership/round_end.hpp"
#include "rendezvous/membership/settings.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::membership {

// Events.
struct NodeMessageReceived {
  NodeId node = 0;
  NodeMessage message;
};
struct NodeDisconnected {
  NodeId node = 0;
  std::string reason;  ///< "its connection was closed"
};
struct TimePassed {};
/// The agent beside the coordinator leaves the run, which another one will coordinate: the round
/// ends, and no further one is formed here.
struct HostLeaves {
  std::string reason;
};
using CoordinatorEvent =
    std::variant<NodeMessageReceived, NodeDisconnected, TimePassed, HostLeaves>;

// Actions, to be carried out in their order.
struct Tell {
  NodeId node = 0;
  CoordinatorMessage message;
};
/// Closes the connection once everything told before has been sent. No NodeDisconnected follows.
struct CloseConnection {
  NodeId node = 0;
};
/// All connections of workers are closed and all their keys forgotten.
struct ClearStore {};
/// To be written down where it outlives the coordinator, if there is such a place, before anything
/// that follows is carried out.
struct KeepRecord {
  RunRecord record;
  std::optional<RunOutcome> outcome{};
};
using CoordinatorAction = std::variant<Tell, CloseConnection, ClearStore, KeepRecord>;

class Coordination {
 public:
  Coordination(Settings settings, Time now);
  /// Goes on with a run of which another coordinator has left this.
  Coordination(Settings settings, const RunRecord& record, Time now);

  std::vector<CoordinatorAction> apply(const CoordinatorEvent& event, Time now);

  /// When TimePassed must be applied if nothing happens before; nothing: not at all.
  std::optional<Time> next_wake() const;

  /// Nothing is left to be done: there is an outcome, and every node has gone or had time to; or
  /// the host leaves, and no node has workers.
  bool is_over() const;

  /// What the next coordinator would need to know.
  RunRecord record() const;

  /// Whether nodes are there that would go on without the host.
  bool has_nodes() const { return roster_.present() > 0; }

  const std::optional<RunOutcome>& outcome() const { return outcome_; }
  int round() const { return round_; }
  int restarts_used() const { return history_.restarts; }

 private:
  enum class Phase : std::uint8_t { gathering, running, stopping, finished };
  using Member = Roster::Member;
  using Workers = Roster::Workers;

  std::optional<Time> next_of_gathering() const;

  // Events.
  void on_message(NodeId id, const Join& join);
  void on_message(NodeId id, const Heartbeat& heartbeat);
  void on_message(NodeId id, const WorkersFailing& failing);
  void on_message(NodeId id, const WorkersEnded& ended);
  void on_message(NodeId id, const Leave& leave);
  void on_message(NodeId id, const Probed& probed);
  void lose(NodeId id, const std::string& reason);
  void let_go(const HostLeaves& leaves);
  void check_time();

  // Who comes in.
  void admit(NodeId id, const Join& join);
  void learn_age(const Join& join);
  void contend(NodeId id, const Join& join, NodeId holder);
  void refuse(NodeId id, const Join& join, const std::string& reason);
  void resolve_duplicates();
  bool has_room_for_others() const;
  std::string why_held_back(const Join& join) const;
  std::string compare_address(const Join& join) const;
  std::string compare_command(const Join& join);
  void let_in_held_back();

  // Reachability.
  bool begin_probe();
  bool knows_reach();
  void use_probe();
  void retry();
  void admit_reachable();
  void wait_for_reach(const NodeChoice& choice);
  std::string describe_waiting_for_reach(const NodeChoice& choice) const;
  std::string describe_shortage_of_reach(const NodeChoice& choice) const;
  void hold_back_cut_off(const NodeChoice& choice);
  void tell_cut_off(const NodeChoice& choice);

  // Decisions.
  void consider();
  void consider_round();
  void consider_success();
  void consider_next();
  void form_largest_round();
  void form_round(const NodeChoice& choice);
  void stop_round(const std::string& reason, StopMode mode = StopMode::urgent);
  void change(MembershipChange::Kind kind, const std::string& reason, Time when);
  void release_successful();
  void finish(RunResult result, const std::string& reason);

  bool can_continue_without_failed_nodes() const;
  void continue_without_failed_nodes();
  void gather(const std::string& reason, std::chrono::milliseconds delay = {});
  void notify_waiting();
  std::string describe_waiting_for_nodes() const;
  void tell(NodeId id, CoordinatorMessage message);
  std::optional<Time> end_of_wait() const;
  Time lease_end() const;
  std::vector<std::string> names_of_last_round() const;

  Settings settings_;
  Time now_;
  Roster roster_;
  DuplicateAgents duplicates_;
  Phase phase_ = Phase::gathering;
  int round_ = -1;  ///< the latest of this coordinator's
  int rounds_formed_ = 0;
  int highest_round_ = -1;                 ///< that any node has taken part in
  std::vector<PastNode> last_nodes_;       ///< of the latest round, by node rank
  Time round_formed_;                      ///< of the latest round; of a former one not before
  bool is_of_former_ = false;              ///< another coordinator formed the latest round
  std::chrono::milliseconds round_lease_;  ///< the longest of nodes that may have workers of it
  RestartHistory history_;

  Time gather_end_;  ///< of gathering: the run ends for lack of nodes
  std::optional<Time> last_call_end_;
  std::optional<Time> not_before_;  ///< pause before the next round
  std::optional<Time> barrier_end_;
  std::optional<Time> farewell_end_;

  FailoverState failover_;  ///< until the first round of this coordinator's
  bool is_host_leaving_ = false;

  Reachability reach_;
  std::optional<Time> next_retry_;  ///< next probe, to readmit nodes that are cut off
  /// Before the next probe, while too few nodes can reach each other; empty otherwise.
  std::optional<std::chrono::milliseconds> retry_pause_;

  // Of the round under way.
  RoundEnd end_;
  StopMode stop_mode_ = StopMode::urgent;  ///< of its end

  std::string interruption_;  ///< the host's agent was asked to stop
  int interrupting_signal_ = 0;

  std::string first_node_;  ///< that has said what it runs
  std::string first_command_;

  FlappingNodes flapping_;
  Time no_stays_until_{};  ///< nodes that are lost before that are not to blame

  std::optional<RunOutcome> outcome_;
  std::vector<CoordinatorAction> actions_;
};

}  // namespace ddprun::membership
