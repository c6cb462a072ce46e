// A node's state in a run: decides when to connect and send to the coordinator, when to start and
// stop workers, and when the agent ends. Maps events to actions, like coordination.hpp on the
// coordinator's side.
//
// The node's copy of its lease starts when the last answered heartbeat was sent and ends early by a
// margin, so a disconnected node kills its workers before the coordinator replaces it. If the
// coordinator in the same process holds its term for a limited time, the lease also ends with the
// term, since a newly elected coordinator does not wait for this node. A stopped agent cannot kill
// its workers, so another process is given the end of the lease (GuardUntil).
#pragma once

#include "rendezvous/membership/connection_attempts.hpp"
#include "rendezvous/membership/messages.hpp"
#include "rendezvous/membership/node_lease.hpp"
#include "rendezvous/membership/settings.hpp"

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::membership {

// Events.
struct Connected {
  /// Time until which the coordinator in this process certainly holds its term; max: unlimited, or
  /// the coordinator is elsewhere.
  Time term_end = Time::max();
  std::string where{};   ///< "the rendezvous at HOST:PORT", for messages; empty: unchanged
  ProbeAddress probe{};  ///< new probe endpoint of this agent
};
/// The term of the coordinator in this process has been renewed.
struct TermRenewed {
  Time end;
};
/// An attempt to connect has failed, or a connection has ended.
struct ConnectionLost {
  std::string reason;
};
struct MessageReceived {
  CoordinatorMessage message;
  /// false: a Refused from a peer that has not authenticated
  bool is_proven = true;
};
/// The node cannot join: the run has ended or does not accept this node.
struct JoinRejected {
  RunOutcome outcome;
};
/// A worker of this node has failed; the others are being stopped.
struct OwnWorkersFailing {
  std::string reason;
};
/// The node's workers and all their processes have ended, except any that could not be killed.
struct OwnWorkersEnded {
  bool have_succeeded = false;
  std::string not_started{};
  std::vector<Failure> failures{};
  std::vector<Failure> early_exits{};           ///< see WorkersEnded
  std::vector<control::RankFlights> flights{};  ///< flight records of the workers
  /// Describes the processes that could not be killed; nullopt: none.
  std::optional<std::string> still_running{};
  std::optional<std::string> no_restart{};  ///< see WorkersEnded
};
/// The activity of this node's ranks has changed; see Heartbeat.
struct OwnActivity {
  RankActivity activity;
};
/// The operator asked this node to leave; its workers are being stopped.
struct AskedToLeave {
  std::string reason;  ///< "was asked to stop by SIGTERM"
  int signal = 0;      ///< that asked for it
};
/// The result of ProbePeers.
struct PeersProbed {
  int serial = 0;                            ///< see ProbePeers
  std::vector<std::uint32_t> unreachable{};  ///< see Probed
};
struct NodeTimePassed {};
/// A notice without round and node is this node's own.
using NodeEvent =
    std::variant<Connected, TermRenewed, ConnectionLost, MessageReceived, JoinRejected,
                 OwnWorkersFailing, OwnWorkersEnded, OwnActivity, HangNotice, StacksNotice,
                 SlowRankNotice, AskedToLeave, PeersProbed, NodeTimePassed>;

// Actions, to be performed in order.

/// Followed by Connected or ConnectionLost.
struct Connect {
  Time not_before;
};
struct Disconnect {};
struct Send {
  NodeMessage message;
};
struct StartWorkers {
  RoundFormed round;
};
/// Followed by OwnWorkersEnded.
struct EndWorkers {
  std::string reason;
  bool at_once = false;     ///< kill with SIGKILL
  bool is_orderly = false;  ///< stop as on the operator's request
};
/// The activity of other ranks has changed; see HeartbeatAnswer.
struct NoteActivity {
  RankActivity activity;
};
/// Ranks of another node hang.
struct NoteHang {
  HangNotice notice;
};
/// Stacks of another node, which this node reports.
struct NoteStacks {
  StacksNotice notice;
};
/// A rank of another node is slow or has recovered.
struct NoteSlowRank {
  SlowRankNotice notice;
};
/// Followed by PeersProbed.
struct ProbePeers {
  int serial = 0;
  Probe probe;
};
/// New end of the lease: workers that are alive then must be killed, by another process if this
/// agent cannot.
struct GuardUntil {
  Time end;
};
/// A message for the operator.
struct Announce {
  std::string text;
  bool is_warning = false;  ///< the run may continue nevertheless
};
/// The round has ended, and another one follows.
struct AnnounceRound {
  NextRound next;
  bool is_planned = false;  ///< the round ended in an orderly way
};
/// This node leaves the run: a coordinator in this process hands over to another node if it can.
struct Resign {};
struct EndRun {
  RunOutcome outcome;
};
using NodeAction = std::variant<Connect, Disconnect, Send, StartWorkers, EndWorkers, NoteActivity,
                                NoteHang, NoteStacks, NoteSlowRank, ProbePeers, GuardUntil,
                                Announce, AnnounceRound, Resign, EndRun>;

class NodeStateMachine {
 public:
  /// `join` describes this node. Until its first round, the node tries to join for
  /// settings.join_timeout.
  NodeStateMachine(Join join, const Settings& settings, Time now);

  /// REQUIRES: called once, before apply().
  std::vector<NodeAction> start(Time now);

  std::vector<NodeAction> apply(const NodeEvent& event, Time now);

  /// Returns when to apply NodeTimePassed unless another event comes first.
  std::optional<Time> next_wake() const;

  /// Deadline of a connection attempt.
  Time give_up() const { return attempts_.give_up(); }

  bool has_ended() const { return has_ended_; }

 private:
  void on_message(const Welcome& welcome);
  void on_message(const Refused& refused);
  void on_message(const HeartbeatAnswer& answer);
  void on_message(const Waiting& waiting);
  void on_message(const NextRound& next);
  void on_message(const RoundFormed& round);
  void on_message(const membership::StopWorkers& stop);
  void on_message(const Finish& finish);
  void on_message(const Probe& probe);
  void on_message(const HangNotice& notice);
  void on_message(const StacksNotice& notice);
  void on_message(const SlowRankNotice& notice);

  void on_event(const Connected& connected);
  void on_event(const TermRenewed& renewed);
  void on_event(const ConnectionLost& lost);
  void on_event(const MessageReceived& received);
  void on_event(const JoinRejected& rejected);
  void on_event(const OwnWorkersFailing& failing);
  void on_event(const OwnWorkersEnded& ended);
  void on_event(const OwnActivity& own);
  void on_event(const HangNotice& own) { send_notice(own); }
  void on_event(const StacksNotice& own) { send_notice(own); }
  void on_event(const SlowRankNotice& own) { send_notice(own); }
  void on_event(const AskedToLeave& leave);
  void on_event(const PeersProbed& probed);
  void on_event(const NodeTimePassed&);

  void on_unproven_refusal(const Refused& refused);
  void send(NodeMessage message);
  template <typename Notice>
  void send_notice(Notice own);
  void guard_workers();
  void check_lease();
  std::string silence() const;
  void lose_connection(const std::string& reason);
  void retry_connecting();
  std::string absence() const;
  void leave_with_workers_left();
  void end(RunOutcome outcome);
  void end_interrupted();

  enum class Link : std::uint8_t { none, connecting, joining, joined };

  Join join_;
  bool is_local_;                ///< value in Settings
  std::chrono::seconds memory_;  ///< how long an outcome is remembered
  std::chrono::milliseconds answer_timeout_;
  Time now_;
  std::chrono::milliseconds absence_{0};  ///< delay of an event after the wake-up was due
  ConnectionAttempts attempts_;

  Link link_ = Link::none;
  std::string rendezvous_ = "the rendezvous";
  Time answer_begin_;  ///< start of the wait for an answer, while joining
  Time answer_end_;
  std::string last_warning_;  ///< latest warning of the coordinator
  std::string last_waiting_;  ///< latest notice, while joining
  NodeLease lease_;
  Time guarded_until_ = Time::max();  ///< end of the lease in the last GuardUntil

  int probes_under_way_ = 0;  ///< at most kProbesMax
  int probe_serial_ = 0;      ///< serial of the latest probe, over all connections
  /// number of the latest probe, until its connection ends
  std::optional<std::uint32_t> probe_number_;

  Time round_announced_;  ///< when the latest round was announced
  bool has_workers_ = false;
  RankActivity own_activity_;     ///< see Heartbeat
  RankActivity others_activity_;  ///< see HeartbeatAnswer
  bool has_lost_round_ = false;  ///< a round was lost, not yet reported; false after an orderly end
  bool were_asked_ = false;      ///< workers were asked to stop
  bool is_of_this_connection_ = false;        ///< the round belongs to the current connection
  std::optional<std::string> still_running_;  ///< from earlier workers; see OwnWorkersEnded
  std::string leaving_;                       ///< reason for leaving; empty: not leaving
  int leaving_signal_ = 0;
  std::optional<RunOutcome> interruption_;  ///< outcome if the coordinator announces no other
  std::optional<RunOutcome> outcome_;       ///< known outcome, while workers are still ending
  bool has_ended_ = false;
  std::vector<NodeAction> actions_;
};

}  // namespace ddprun::membership
