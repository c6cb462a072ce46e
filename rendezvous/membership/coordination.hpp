// Who is in the run, in which round and as which rank, when a round ends and why, and how the run
// ends: all that the coordinator of a run decides. A value that takes events and answers with
// actions; it has no clock and does no I/O, so the same decisions serve the program and the
// simulator.
//
//   gathering --enough nodes--> running --all workers succeeded--> finished
//       ^                          |  a worker failed, a node came, left or was lost
//       '--------- restart --- stopping --no restarts left, interrupted--> finished
//
// A round ends on all nodes before the next one is formed: each has said that its workers have
// ended, has closed its connection, or has let its lease run out, by which time it has killed them.
#pragma once

#include "rendezvous/membership/messages.hpp"
#include "rendezvous/membership/restart_budget.hpp"
#include "rendezvous/membership/settings.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun::membership {

/// A connection: a node that comes back has another one.
using NodeId = std::uint64_t;

// Events.
struct NodeSays {
  NodeId node = 0;
  NodeMessage message;
};
struct NodeGone {
  NodeId node = 0;
  std::string reason;  ///< "its connection was closed"
};
struct TimePassed {};
using CoordinatorEvent = std::variant<NodeSays, NodeGone, TimePassed>;

// Actions, to be carried out in their order.
struct Tell {
  NodeId node = 0;
  CoordinatorMessage message;
};
/// Closes the connection once everything told before has been sent. No NodeGone follows.
struct HangUp {
  NodeId node = 0;
};
/// All connections of workers are closed and all their keys forgotten.
struct ClearStore {};
using CoordinatorAction = std::variant<Tell, HangUp, ClearStore>;

class Coordination {
 public:
  Coordination(Settings settings, Time now);

  std::vector<CoordinatorAction> apply(const CoordinatorEvent& event, Time now);

  /// When TimePassed must be applied if nothing happens before; nothing: not at all.
  std::optional<Time> next_wake() const;

  /// Nothing is left to be done: there is a verdict, and every node has gone or had time to.
  bool is_over() const { return phase_ == Phase::finished && members_.empty(); }

  const std::optional<Verdict>& verdict() const { return verdict_; }
  int round() const { return round_; }
  int restarts_used() const { return history_.restarts; }

 private:
  enum class Phase : std::uint8_t { gathering, running, stopping, finished };
  /// What a member's workers of the round are doing.
  enum class Workers : std::uint8_t { none, running, ended, succeeded };

  struct Member {
    Join join;
    Time lease_end;
    Workers workers = Workers::none;
    bool is_leaving = false;
    int node_rank = -1;  ///< in the latest round
  };

  // Events.
  void hear(NodeId id, const Join& join);
  void hear(NodeId id, const Heartbeat& heartbeat);
  void hear(NodeId id, const WorkersFailing& failing);
  void hear(NodeId id, const WorkersEnded& ended);
  void hear(NodeId id, const Leave& leave);
  void lose(NodeId id, const std::string& reason);
  void check_time();

  // Decisions.
  std::string objection(const Join& join) const;
  void consider();
  void consider_round();
  void consider_success();
  void consider_next();
  void form_round();
  void note_failing(NodeId id);
  void order_failures();
  void stop_round(const std::string& reason);
  void change_of_membership(const std::string& reason, Time when);
  void release_successful();
  void finish(Verdict::Result result, const std::string& reason);

  void gather();
  void notify_waiting();
  void tell(NodeId id, CoordinatorMessage message);
  std::string waiting_text() const;
  int present() const;  ///< members that would take part in a next round
  int taking_part(Workers workers) const;

  Settings settings_;
  Time now_;
  std::map<NodeId, Member> members_;  ///< joined and still connected, in order of joining
  Phase phase_ = Phase::gathering;
  int round_ = -1;  ///< the latest of this coordinator's
  int rounds_formed_ = 0;
  int highest_round_ = -1;               ///< that any node has taken part in
  std::vector<std::string> last_names_;  ///< of the latest round's nodes, by node rank
  RestartHistory history_;

  Time gather_end_;  ///< of gathering: the run ends for lack of nodes
  std::optional<Time> last_call_end_;
  std::optional<Time> not_before_;  ///< pause before the next round
  Time next_notice_;
  std::optional<Time> barrier_end_;
  std::optional<Time> farewell_end_;

  // Of the round under way.
  struct Reported {
    NodeId node = 0;
    Failure failure;
  };
  std::vector<Reported> failures_;     ///< reported so far
  std::optional<Time> first_failure_;  ///< when the first worker was said to fail
  std::string failing_reason_;         ///< of that
  std::vector<NodeId> failing_nodes_;  ///< in the order in which they said so
  std::string not_started_;
  std::string interruption_;  ///< the host's agent was asked to stop
  int interrupting_signal_ = 0;
  bool is_membership_change_ = false;  ///< explains the end of the round, whatever else failed

  std::optional<Verdict> verdict_;
  std::vector<CoordinatorAction> actions_;
};

}  // namespace ddprun::membership
