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
#include "rendezvous/membership/join_checks.hpp"
#include "rendezvous/membership/messages.hpp"
#include "rendezvous/membership/node_choice.hpp"
#include "rendezvous/membership/reachability.hpp"
#include "rendezvous/membership/roster.hpp"
#include "rendezvous/membership/round_end.hpp"
#include "rendezvous/membership/run_progress.hpp"
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
/// The coordinator's own agent leaves the run: the round ends, and another node coordinates the
/// next round.
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

  /// Returns true if there is an outcome and every node has disconnected or timed out, or if the
  /// host is leaving and no node has workers.
  bool is_over() const;

  /// Returns the state that the next coordinator needs.
  RunRecord record() const { return progress_.record(settings_, now_); }

  /// Returns true if connected nodes would continue without the host.
  bool has_nodes() const { return roster_.present() > 0; }

  /// Returns the outcome; null until the run has ended.
  const RunOutcome* outcome() const;
  int round() const { return progress_.round(); }
  int restarts_used() const { return progress_.restarts.restarts; }

 private:
  using Member = Roster::Member;
  using Workers = Roster::Workers;

  // The phases. Each has the state that is used only in it.

  /// Waits for nodes that can reach each other.
  struct Gathering {
    Time end;                             ///< time at which the run ends for lack of nodes
    std::optional<Time> not_before{};     ///< end of the pause after a failed round
    std::optional<Time> last_call_end{};  ///< end of the wait for more than nodes_min nodes
    /// Pause before the next probe while too few nodes can reach each other; otherwise empty.
    std::optional<std::chrono::milliseconds> retry_pause{};
  };
  /// The workers of the latest round run.
  struct Running {
    std::optional<Time> barrier_end{};  ///< time at which nodes that succeeded are released
  };
  /// Waits until no node has workers of the latest round.
  struct Stopping {
    StopMode mode = StopMode::urgent;
  };
  /// The nodes receive the outcome and disconnect.
  struct Finished {
    RunOutcome outcome;
    Time end;  ///< time at which remaining nodes are disconnected
  };

  template <typename Phase>
  bool is_in() const {
    return std::holds_alternative<Phase>(phase_);
  }
  std::optional<Time> next_wake_of(const Gathering& gathering) const;
  std::optional<Time> end_of_wait(const Gathering& gathering) const;

  // Messages from nodes, and events.
  void on_message(NodeId id, const Join& join);
  void on_message(NodeId id, const Heartbeat& heartbeat);
  void on_message(NodeId id, const WorkersFailing& failing);
  void on_message(NodeId id, const WorkersEnded& ended);
  void on_message(NodeId id, const Leave& leave);
  void on_message(NodeId id, const Probed& probed);
  void on_message(NodeId id, const HangNotice& notice) { forward(id, notice); }
  void on_message(NodeId id, const StacksNotice& notice) { forward(id, notice); }
  void on_message(NodeId id, const SlowRankNotice& notice) { forward(id, notice); }
  void lose(NodeId id, const std::string& reason);
  void on_host_leaving(const HostLeaves& leaves);
  void check_time();

  // Joining.
  void admit(NodeId id, const Join& join);
  void admit_to_running_round(NodeId id, const Member& member);
  void refuse(NodeId id, const Join& join, const std::string& reason);
  void resolve_duplicates();
  bool has_room_for_others() const;
  void admit_held_back();

  // Reachability.
  bool begin_probe();
  bool knows_reach();
  void use_probe();
  void probe_again();
  void admit_reachable();
  void wait_for_reach(Gathering& gathering, const NodeChoice& choice);
  void notify_cut_off(const NodeChoice& choice);

  // Rounds.
  void consider();
  void consider_round(Gathering& gathering);
  void consider_success();
  void consider_next();
  void form_largest_round(Gathering& gathering);
  void form_round(const NodeChoice& choice);
  void stop_round(const std::string& reason, StopMode mode = StopMode::urgent);
  void change(MembershipChange::Kind kind, const std::string& reason, Time when);
  void release_successful();
  bool can_continue_without_failed_nodes() const;
  void continue_without_failed_nodes();
  void gather(const std::string& reason, std::chrono::milliseconds delay = {});
  void finish(RunResult result, const std::string& reason);

  // Messages to nodes.
  void notify_waiting(const Gathering& gathering);
  template <typename Notice>
  void forward(NodeId id, Notice notice);
  void send(NodeId id, CoordinatorMessage message);
  void close(NodeId id) { actions_.emplace_back(CloseConnection{id}); }
  Time lease_end() const;

  Settings settings_;
  Time now_;
  std::variant<Gathering, Running, Stopping, Finished> phase_;
  RunProgress progress_;
  RoundEnd round_end_;  ///< end of the latest round

  Roster roster_;
  DuplicateAgents duplicates_;
  JoinWarnings warnings_;
  FailoverState failover_;  ///< used until this coordinator's first round
  FlappingNodes flapping_;
  Time no_stays_until_{};  ///< node losses before this time do not count as flapping

  Reachability reach_;
  std::optional<Time> next_probe_;  ///< next probe to readmit unreachable nodes

  bool is_host_leaving_ = false;
  std::string interruption_;  ///< set when the host's agent was asked to stop
  int interrupting_signal_ = 0;

  std::vector<CoordinatorAction> actions_;
};

}  // namespace ddprun::membership
