// All decisions of a run's coordinator: which nodes are in the run, their rounds and ranks, when
// and why a round ends, and how the run ends. A state machine that maps events to actions; without
// clock or I/O, so the program and the simulator share it.
//
//   gathering --enough nodes--> running --all workers succeeded--> finished
//       ^                          |  a worker failed, a node came, left or was lost
//       '--------- restart --- stopping --no restarts left, interrupted--> finished
//
// Before a round is formed, and when one fails, all nodes connect to each other. A round consists
// of the largest set of nodes that can all reach each other.
//
// A round must end on all nodes before the next one is formed: each node has reported that its
// workers ended, has disconnected, or its lease has expired, by which time it has killed them.
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
/// The coordinator's own agent leaves the run: the round ends, and another node will coordinate the
/// next one.
struct HostLeaves {
  std::string reason;
};
using CoordinatorEvent =
    std::variant<NodeMessageReceived, NodeDisconnected, TimePassed, HostLeaves>;

// Actions, to be performed in order.
struct SendToNode {
  NodeId node = 0;
  CoordinatorMessage message;
};
/// Closes the connection after sending all messages. No NodeDisconnected follows.
struct CloseConnection {
  NodeId node = 0;
};
/// Closes all worker connections and deletes all keys.
struct ClearStore {};
/// Persists the record, if there is storage for it, before any later action is performed.
struct KeepRecord {
  RunRecord record;
  std::optional<RunOutcome> outcome{};
};
using CoordinatorAction = std::variant<SendToNode, CloseConnection, ClearStore, KeepRecord>;

class Coordination {
 public:
  Coordination(Settings settings, Time now);
  /// Continues a run from the record of another coordinator.
  Coordination(Settings settings, const RunRecord& record, Time now);

  std::vector<CoordinatorAction> apply(const CoordinatorEvent& event, Time now);

  /// Returns when to apply TimePassed unless another event comes first; nullopt: never.
  std::optional<Time> next_wake() const;

  /// True if there is an outcome and every node has disconnected or timed out, or if the host is
  /// leaving and no node has workers.
  bool is_over() const;

  /// State that the next coordinator needs.
  RunRecord record() const;

  /// True if nodes are connected that would continue without the host.
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
  void on_host_leaving(const HostLeaves& leaves);
  void check_time();

  // Joining.
  void admit(NodeId id, const Join& join);
  void update_age(const Join& join);
  void contend(NodeId id, const Join& join, NodeId holder);
  void refuse(NodeId id, const Join& join, const std::string& reason);
  void resolve_duplicates();
  bool has_room_for_others() const;
  std::string hold_back_reason(const Join& join) const;
  std::string compare_address(const Join& join) const;
  std::string compare_command(const Join& join);
  void admit_held_back();

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
  void notify_cut_off(const NodeChoice& choice);

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
  void send(NodeId id, CoordinatorMessage message);
  std::optional<Time> end_of_wait() const;
  Time lease_end() const;
  std::vector<std::string> names_of_last_round() const;

  Settings settings_;
  Time now_;
  Roster roster_;
  DuplicateAgents duplicates_;
  Phase phase_ = Phase::gathering;
  int round_ = -1;  ///< latest round formed by this coordinator; -1: none
  int rounds_formed_ = 0;
  int highest_round_ = -1;            ///< highest round of any node
  std::vector<PastNode> last_nodes_;  ///< nodes of the latest round, by node rank
  Time round_formed_;  ///< when the latest round was formed; no earlier if by a former coordinator
  bool is_of_former_ = false;  ///< another coordinator formed the latest round
  /// longest lease of nodes that may have workers of the latest round
  std::chrono::milliseconds round_lease_;
  RestartHistory history_;

  Time gather_end_;  ///< deadline of gathering; the run then ends for lack of nodes
  std::optional<Time> last_call_end_;
  std::optional<Time> not_before_;  ///< pause before the next round
  std::optional<Time> barrier_end_;
  std::optional<Time> farewell_end_;

  FailoverState failover_;  ///< until this coordinator's first round
  bool is_host_leaving_ = false;

  Reachability reach_;
  std::optional<Time> next_retry_;  ///< next probe to readmit unreachable nodes
  /// Pause before the next probe while too few nodes can reach each other; otherwise empty.
  std::optional<std::chrono::milliseconds> retry_pause_;

  // State of the current round.
  RoundEnd end_;
  StopMode stop_mode_ = StopMode::urgent;  ///< how the round ends

  std::string interruption_;  ///< set when the host's agent was asked to stop
  int interrupting_signal_ = 0;

  std::string first_node_;  ///< first node that reported its command
  std::string first_command_;

  FlappingNodes flapping_;
  Time no_stays_until_{};  ///< node losses before this time do not count as flapping

  std::optional<RunOutcome> outcome_;
  std::vector<CoordinatorAction> actions_;
};

}  // namespace ddprun::membership
