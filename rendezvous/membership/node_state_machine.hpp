// One node's part in a run: when it speaks to the coordinator, when its workers start and
// stop, and when its agent ends. A value that takes events and answers with actions, like the
// coordinator's half (coordination.hpp).
//
// The node's lease is the coordinator's view of it, kept here a little shorter: it runs from when
// the last answered heartbeat was sent, and ends early by a margin. So a node that is cut off has
// killed its workers before the coordinator lets others take their place. Beside a coordinator that
// holds its term for a time, the lease also ends with that: once another one may be elected, it
// does not wait for this node. An agent that is stopped cannot kill its workers, so somebody else
// has to know when the lease ends (GuardUntil).
#pragma once

#include "rendezvous/membership/messages.hpp"
#include "rendezvous/membership/settings.hpp"

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun::membership {

// Events.
struct Connected {
  /// The coordinator is part of this process and surely elected until then. As made: for ever, or
  /// it is elsewhere.
  Time term_end = Time::max();
  std::string where{};   ///< "the rendezvous at HOST:PORT", for people; empty: as before
  ProbeAddress probe{};  ///< of this agent from now on
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
  /// False: a Refused of a listener that has not proved that it knows the run's secret.
  bool is_proven = true;
};
/// There is nobody to connect to, and will be nobody: the run has ended, or has no place for this
/// node.
struct JoinRejected {
  RunOutcome outcome;
};
/// A worker of this node has failed; the others are being stopped.
struct OwnWorkersFailing {
  std::string reason;
};
/// This node's workers have ended, and all that they have started unless it could not be killed.
struct OwnWorkersEnded {
  bool have_succeeded = false;
  std::string not_started{};
  std::vector<Failure> failures{};
  std::string flights{};  ///< as in WorkersEnded
  /// Describes the processes that could not be killed; nothing: none are left.
  std::optional<std::string> still_running{};
  std::optional<std::string> no_restart{};  ///< as in WorkersEnded
};
/// By the operator; the workers are being stopped.
struct AskedToLeave {
  std::string reason;  ///< "was asked to stop by SIGTERM"
  int signal = 0;      ///< that asked for it
};
/// The result of ProbePeers.
struct PeersProbed {
  int serial = 0;                            ///< as in ProbePeers
  std::vector<std::uint32_t> unreachable{};  ///< as in Probed
};
struct NodeTimePassed {};
using NodeEvent =
    std::variant<Connected, TermRenewed, ConnectionLost, MessageReceived, JoinRejected,
                 OwnWorkersFailing, OwnWorkersEnded, AskedToLeave, PeersProbed, NodeTimePassed>;

// Actions, to be carried out in their order.

/// Leads to Connected or ConnectionLost.
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
/// Leads to OwnWorkersEnded.
struct EndWorkers {
  std::string reason;
  bool at_once = false;     ///< by SIGKILL
  bool is_orderly = false;  ///< their peers are well: as when the operator asks them to
};
/// Leads to PeersProbed.
struct ProbePeers {
  int serial = 0;
  Probe probe;
};
/// The lease now ends then: workers that still live are to be killed, by somebody else if this
/// agent cannot.
struct GuardUntil {
  Time end;
};
/// For the operator.
struct Announce {
  std::string text;
  bool is_warning = false;  ///< something is amiss; the run may go on
};
/// The round has ended, and another one follows.
struct AnnounceRound {
  NextRound next;
  bool is_planned = false;  ///< the round ended in an orderly way
};
/// This node leaves the run: if the coordinator is part of this process and others can take over,
/// they do.
struct Resign {};
struct EndRun {
  RunOutcome outcome;
};
using NodeAction = std::variant<Connect, Disconnect, Send, StartWorkers, EndWorkers, ProbePeers,
                                GuardUntil, Announce, AnnounceRound, Resign, EndRun>;

class NodeStateMachine {
 public:
  /// `join` is what this node says of itself. Until its first round the node tries to get in for
  /// settings.join_timeout.
  NodeStateMachine(Join join, const Settings& settings, Time now);

  /// To be called once, before anything happens.
  std::vector<NodeAction> start(Time now);

  std::vector<NodeAction> apply(const NodeEvent& event, Time now);

  /// When NodeTimePassed must be applied if nothing happens before.
  std::optional<Time> next_wake() const;

  /// For an attempt to connect: later it is of no use.
  Time give_up() const { return give_up_; }

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

  void take(const Connected& connected);
  void take(const TermRenewed& renewed);
  void take(const ConnectionLost& lost);
  void take(const MessageReceived& says);
  void take(const JoinRejected& rejected);
  void take(const OwnWorkersFailing& failing);
  void take(const OwnWorkersEnded& ended);
  void take(const AskedToLeave& leave);
  void take(const PeersProbed& probed);
  void take(const NodeTimePassed&);

  void doubt(const Refused& refused);
  void send(NodeMessage message);
  void renew_lease(Time asked);
  void plan_heartbeat();
  void guard_workers();
  void check_lease();
  std::string silence() const;
  Time lease_end() const { return std::min(granted_end_, term_end_); }
  void lose_connection(const std::string& reason);
  void try_again();
  std::string absence() const;
  std::string why_given_up() const;
  void leave_with_workers_left();
  void end(RunOutcome outcome);
  void end_interrupted();

  enum class Link : std::uint8_t { none, connecting, joining, joined };

  Join join_;
  bool is_local_;  ///< as in Settings
  std::chrono::milliseconds rejoin_timeout_;
  std::chrono::seconds memory_;  ///< of how a run has ended
  std::chrono::milliseconds answer_timeout_;
  Time now_;
  std::chrono::milliseconds absence_{0};  ///< by which an event comes after it was to be woken
  Time give_up_;                          ///< when there is no connection
  std::chrono::milliseconds give_up_after_;
  std::chrono::milliseconds pause_;  ///< before the next attempt to connect
  std::string last_problem_;         ///< of connecting
  std::optional<Time> first_doubt_;  ///< of the latest refusals without a proof, in a row
  std::string loss_;  ///< why the connection ended over which this node had joined, if it has none
  Time next_announcement_;  ///< of it
  std::chrono::milliseconds announcement_pause_;

  Link link_ = Link::none;
  std::string rendezvous_ = "the rendezvous";
  Time answer_begin_;  ///< of the wait for an answer, while joining
  Time answer_end_;
  std::string last_warning_;  ///< of a coordinator that has taken this node in
  std::string last_waiting_;  ///< what for, while joining
  std::chrono::milliseconds lease_{0};
  Time granted_end_;                  ///< of the lease that the coordinator has granted
  Time term_end_ = Time::max();       ///< of the coordinator, if it is part of this process
  Time guarded_until_ = Time::max();  ///< as told last
  Time next_heartbeat_;
  std::uint64_t last_heartbeat_ = 0;
  std::deque<std::pair<std::uint64_t, Time>> unanswered_;  ///< heartbeats and when they were sent

  int probes_under_way_ = 0;                   ///< at most kProbesMax
  int probe_serial_ = 0;                       ///< of the latest probe, over all connections
  std::optional<std::uint32_t> probe_number_;  ///< of it, while its connection lasts

  Time round_heard_;  ///< when the latest round was told
  bool has_workers_ = false;
  bool has_lost_round_ = false;  ///< unless it was ended in an orderly way; until it is told of
  bool were_asked_ = false;      ///< the workers, to stop
  bool is_of_this_connection_ = false;        ///< the workers' round
  std::optional<std::string> still_running_;  ///< of earlier workers: as in OwnWorkersEnded
  std::string leaving_;                       ///< why; empty: it is not
  int leaving_signal_ = 0;
  std::optional<RunOutcome> interruption_;  ///< outcome if the coordinator announces no other
  std::optional<RunOutcome> outcome_;       ///< once it is known, while workers still end
  bool has_ended_ = false;
  std::vector<NodeAction> actions_;
};

}  // namespace ddprun::membership
