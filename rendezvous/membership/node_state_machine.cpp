#include "rendezvous/membership/node_state_machine.hpp"

#include "rendezvous/membership/bounds.hpp"
#include "rendezvous/membership/outsider.hpp"

#include <algorithm>

namespace ddprun::membership {

namespace {

/// A longer delay means that the agent was stopped; a loaded machine delays less.
constexpr auto kNoticedAbsence = std::chrono::milliseconds(1000);

/// Maximum concurrent probes. A coordinator starts one during another only when workers fail.
constexpr int kProbesMax = 4;

/// True if the receiver's entry in the round matches this node.
bool has_place_of(const Join& self, const RoundFormed& round) {
  if (round.node_rank < 0 || std::cmp_greater_equal(round.node_rank, round.nodes.size())) {
    return false;
  }
  const auto& own = round.nodes[static_cast<std::size_t>(round.node_rank)];
  return own.local_world_size == self.local_world_size && own.role == self.role;
}

/// Returns "its connection was closed (at a:1)" for "the rendezvous at a:1: its connection was
/// closed", and other reasons unchanged, for use after "the rendezvous is lost: ".
std::string reason_of_loss(const std::string& reason, const std::string& rendezvous) {
  constexpr std::string_view kName = "the rendezvous ";
  if (!rendezvous.starts_with(kName) || !reason.starts_with(rendezvous + ": ")) return reason;
  return reason.substr(rendezvous.size() + 2) + " (" + rendezvous.substr(kName.size()) + ")";
}

}  // namespace

NodeStateMachine::NodeStateMachine(Join join, const Settings& settings, Time now)
    : join_(std::move(join)),
      is_local_(settings.is_local()),
      memory_(memory_of_run(settings)),
      answer_timeout_(settings.answer_timeout),
      now_(now),
      attempts_(settings, now) {}

std::vector<NodeAction> NodeStateMachine::start(Time now) {
  now_ = now;
  link_ = Link::connecting;
  return {Connect{now}};
}

std::vector<NodeAction> NodeStateMachine::apply(const NodeEvent& event, Time now) {
  const auto due = next_wake();
  absence_ = due && *due < now ? std::chrono::floor<std::chrono::milliseconds>(now - *due)
                               : std::chrono::milliseconds(0);
  now_ = now;
  actions_.clear();
  if (has_ended_) return {};
  // Check the lease first, since the agent may have been stopped.
  if (!std::holds_alternative<ConnectionLost>(event)) check_lease();
  std::visit([&](const auto& value) { on_event(value); }, event);
  return std::exchange(actions_, {});
}

std::optional<Time> NodeStateMachine::next_wake() const {
  if (has_ended_) return std::nullopt;
  if (link_ == Link::joining) return answer_end_;
  if (link_ != Link::joined) return std::nullopt;
  const Time next = std::min(lease_.next_heartbeat(), lease_.end());
  return next == Time::max() ? std::nullopt : std::optional(next);
}

// Connection.

void NodeStateMachine::on_event(const Connected& connected) {
  if (link_ != Link::connecting) return;
  link_ = Link::joining;
  ++join_.connection;
  if (join_.last_round >= 0) {
    join_.since_round = std::chrono::floor<std::chrono::milliseconds>(now_ - round_announced_);
  }
  if (!connected.where.empty()) rendezvous_ = connected.where;
  join_.probe = connected.probe;
  answer_begin_ = now_;
  answer_end_ = std::min(now_ + answer_timeout_, attempts_.give_up());
  lease_.request(now_, connected.term_end);
  send(join_);
}

void NodeStateMachine::on_event(const ConnectionLost& lost) {
  attempts_.forget_refusals();
  if (link_ == Link::connecting) {
    attempts_.on_failed(lost.reason, now_);
    return retry_connecting();
  }
  if (link_ != Link::none) lose_connection(lost.reason);
}

void NodeStateMachine::on_event(const JoinRejected& rejected) {
  if (link_ != Link::connecting) return;
  const auto& outcome = rejected.outcome;
  if (join_.last_round < 0 && outcome.scope == OutcomeScope::run) {
    const bool is_good = outcome.result == RunResult::succeeded;
    actions_.emplace_back(Announce{
        "the run \"" + join_.run_id + "\" has already " + (is_good ? "succeeded" : "ended") +
            " without this node; no workers are started here, and the outcome of that run is "
            "reported; a new run needs another --rdzv_id, since etcd keeps the outcome for " +
            seconds_text(memory_) + " after the end (twice rejoin_timeout)",
        true});
  }
  end(rejected.outcome);
}

/// A node may rejoin only after all workers of its last round have ended.
void NodeStateMachine::lose_connection(const std::string& reason) {
  const bool had_joined = link_ == Link::joined;
  link_ = Link::none;
  lease_.disconnect();
  probe_number_.reset();
  is_of_this_connection_ = false;
  attempts_.on_disconnected(reason);
  if (outcome_) return;
  if (!leaving_.empty() && !has_workers_) {
    return end_interrupted();
  }
  if (interruption_) return on_message(Finish{*interruption_});
  if (had_joined) {
    attempts_.rejoin(reason + absence(), now_);
    actions_.emplace_back(Announce{
        "the rendezvous is lost: " + reason_of_loss(reason, rendezvous_) + absence(), true});
  }
  if (has_workers_) {
    actions_.emplace_back(EndWorkers{"the rendezvous is lost", true});
  } else {
    retry_connecting();
  }
}

/// The agent was stopped or the machine was suspended.
std::string NodeStateMachine::absence() const {
  if (absence_ < kNoticedAbsence) return {};
  const bool are_killed = has_workers_ && lease_.end() <= now_;
  return "; this agent has not run for " + seconds_text(absence_) +
         (are_killed ? ", and its guardian has killed the workers when the lease ended" : "");
}

void NodeStateMachine::retry_connecting() {
  if (now_ >= attempts_.give_up()) {
    return end({.result = RunResult::no_rendezvous,
                .rounds = join_.last_round + 1,
                .reason = attempts_.give_up_reason()});
  }
  if (auto text = attempts_.take_announcement(now_)) actions_.emplace_back(Announce{*text});
  link_ = Link::connecting;
  actions_.emplace_back(Connect{attempts_.next(now_)});
}

void NodeStateMachine::on_message(const Welcome& welcome) {
  if (link_ != Link::joining) return;
  link_ = Link::joined;
  attempts_.on_joined();
  // The coordinator reports this on the host's node.
  if (!join_.is_host && !welcome.warning.empty() && welcome.warning != last_warning_)
    actions_.emplace_back(Announce{welcome.warning, true});
  last_warning_ = welcome.warning;
  lease_.grant(welcome.lease, now_);
  guard_workers();
  if (!leaving_.empty()) send(Leave{leaving_, leaving_signal_});
}

void NodeStateMachine::on_message(const Refused& refused) {
  end(refusal_of(refused.reason));
}

/// Any program at the port can send a refusal, so retry for a while.
void NodeStateMachine::on_unproven_refusal(const Refused& refused) {
  if (!attempts_.tolerates_refusal(now_)) return on_message(refused);
  actions_.emplace_back(Disconnect{});
  lose_connection(refused.reason);
}

void NodeStateMachine::on_message(const HeartbeatAnswer& answer) {
  lease_.on_answer(answer.number);
  guard_workers();
  // Answers may overtake RoundFormed.
  const bool is_of_round = has_workers_ && answer.round == join_.last_round;
  if (is_of_round && std::exchange(others_activity_, answer.activity) != answer.activity)
    actions_.emplace_back(NoteActivity{answer.activity});
}

/// Ignores terms other than the one under which this node joined.
void NodeStateMachine::on_event(const TermRenewed& renewed) {
  if (link_ != Link::joining && link_ != Link::joined) return;
  if (lease_.renew_term(renewed.end) && link_ == Link::joined) guard_workers();
}

void NodeStateMachine::guard_workers() {
  if (outcome_ || guarded_until_ == lease_.end()) return;
  guarded_until_ = lease_.end();
  actions_.emplace_back(GuardUntil{guarded_until_});
}

void NodeStateMachine::check_lease() {
  if (link_ != Link::joined || now_ < lease_.end()) return;
  actions_.emplace_back(Disconnect{});
  lose_connection(lease_.term_end() <= now_
                      ? "this node no longer hosts it"
                      : rendezvous_ + " has not answered for " + seconds_text(lease_.length()));
}

/// A peer that accepts connections but sends nothing hangs or is not a rendezvous. A connection
/// made just before the limit had no time to answer.
std::string NodeStateMachine::silence() const {
  using Tenths = std::chrono::duration<std::int64_t, std::deci>;
  const auto waited = std::chrono::round<Tenths>(answer_end_ - answer_begin_);
  if (waited == Tenths(0) && !attempts_.last_problem().empty()) return attempts_.last_problem();
  return rendezvous_ + " accepts connections but has not responded for " + seconds_text(waited) +
         ": it hangs or is another program, such as torchrun";
}

void NodeStateMachine::on_event(const NodeTimePassed&) {
  if (link_ == Link::joining && now_ >= answer_end_) {
    actions_.emplace_back(Disconnect{});
    return lose_connection(silence());
  }
  if (link_ != Link::joined || now_ < lease_.next_heartbeat()) return;
  send(Heartbeat{lease_.send_heartbeat(now_), join_.last_round, own_activity_});
}

// Rounds.

void NodeStateMachine::on_event(const MessageReceived& received) {
  if (link_ != Link::joining && link_ != Link::joined) return;
  const auto* refused = std::get_if<Refused>(&received.message);
  if (refused != nullptr && !received.is_proven) return on_unproven_refusal(*refused);
  std::visit([&](const auto& message) { on_message(message); }, received.message);
}

/// A waiting notice shows that the coordinator is alive.
void NodeStateMachine::on_message(const Waiting& waiting) {
  if (link_ == Link::joining) {
    answer_begin_ = now_;
    answer_end_ = now_ + answer_timeout_;
    if (std::exchange(last_waiting_, waiting.text) == waiting.text) return;
  }
  const bool is_after_loss = std::exchange(has_lost_round_, false);
  actions_.emplace_back(Announce{waiting.text, waiting.is_warning || is_after_loss});
}

void NodeStateMachine::on_message(const NextRound& next) {
  const bool is_after_loss = std::exchange(has_lost_round_, false);
  actions_.emplace_back(AnnounceRound{.next = next, .is_planned = !is_after_loss});
}

void NodeStateMachine::on_message(const RoundFormed& round) {
  if (!has_place_of(join_, round)) {
    actions_.emplace_back(Disconnect{});
    return lose_connection("it formed a round that excludes this node");
  }
  // Ignore a round that has started already, or that starts while workers are left.
  if (has_workers_ || round.round <= join_.last_round) {
    actions_.emplace_back(Disconnect{});
    return lose_connection("it formed round " + std::to_string(round.round) + " out of turn");
  }
  join_.last_round = round.round;
  join_.restarts_used = round.restarts_used;
  round_announced_ = now_;
  // The round was formed before this node's Leave arrived.
  if (!leaving_.empty()) return send(WorkersEnded{.round = round.round, .were_asked = true});
  has_workers_ = true;
  has_lost_round_ = true;
  were_asked_ = false;
  is_of_this_connection_ = true;
  // Old and new workers would write the same files. The earlier workers succeeded; otherwise this
  // node would have left.
  if (still_running_) return on_event(OwnWorkersEnded{.still_running = still_running_});
  actions_.emplace_back(StartWorkers{round});
}

void NodeStateMachine::on_message(const membership::StopWorkers& stop) {
  if (has_workers_ && stop.round == join_.last_round) {
    were_asked_ = true;
    has_lost_round_ = !stop.is_orderly;
    if (stop.signal != 0) {
      interruption_ = RunOutcome{.result = RunResult::interrupted,
                                 .rounds = join_.last_round + 1,
                                 .reason = stop.reason,
                                 .signal = stop.signal};
    }
    actions_.emplace_back(EndWorkers{.reason = stop.reason, .is_orderly = stop.is_orderly});
  }
}

/// Ignores probes beyond kProbesMax, as if the answers were lost.
void NodeStateMachine::on_message(const Probe& probe) {
  if (probes_under_way_ == kProbesMax) return;
  ++probes_under_way_;
  probe_number_ = probe.number;
  actions_.emplace_back(ProbePeers{++probe_serial_, probe});
}

void NodeStateMachine::on_message(const HangNotice& notice) {
  if (has_workers_ && notice.round == join_.last_round) actions_.emplace_back(NoteHang{notice});
}

/// Stacks may arrive when the workers have ended.
void NodeStateMachine::on_message(const StacksNotice& notice) {
  if (notice.round == join_.last_round) actions_.emplace_back(NoteStacks{notice});
}

void NodeStateMachine::on_message(const SlowRankNotice& notice) {
  if (has_workers_ && notice.round == join_.last_round) actions_.emplace_back(NoteSlowRank{notice});
}

void NodeStateMachine::on_event(const PeersProbed& probed) {
  --probes_under_way_;
  if (!probe_number_ || probed.serial != probe_serial_) return;
  send(Probed{*std::exchange(probe_number_, std::nullopt), probed.unreachable});
}

void NodeStateMachine::on_event(const OwnWorkersFailing& failing) {
  if (is_of_this_connection_) send(WorkersFailing{join_.last_round, failing.reason, were_asked_});
}

void NodeStateMachine::on_event(const OwnActivity& own) {
  own_activity_ = own.activity;
}

template <typename Notice>
void NodeStateMachine::send_notice(Notice own) {
  own.round = join_.last_round;
  if (is_of_this_connection_) send(std::move(own));
}

void NodeStateMachine::on_event(const OwnWorkersEnded& ended) {
  if (!has_workers_) return;
  own_activity_ = {};
  others_activity_ = {};
  still_running_ = ended.still_running;
  // After a success, another round follows only if another node fails.
  if (still_running_ && !ended.have_succeeded && !outcome_ && !is_local_) leave_with_workers_left();
  has_workers_ = false;
  if (is_of_this_connection_) {
    send(WorkersEnded{.round = join_.last_round,
                      .have_succeeded = ended.have_succeeded,
                      .not_started = ended.not_started,
                      .failures = ended.failures,
                      .early_exits = ended.early_exits,
                      .flights = ended.flights,
                      .were_asked = were_asked_,
                      .no_restart = ended.no_restart});
  }
  if (outcome_) return end(*outcome_);
  // The coordinator's agent stays until all nodes have received the outcome.
  if (!leaving_.empty() && (!join_.is_host || link_ == Link::none)) {
    return end_interrupted();
  }
  if (link_ == Link::none) retry_connecting();
}

// End of the run.

void NodeStateMachine::on_message(const Finish& finish) {
  outcome_ = finish.outcome;
  if (!has_workers_) return end(*outcome_);
  // No round follows, so the workers may use their full grace period.
  actions_.emplace_back(GuardUntil{Time::max()});
  actions_.emplace_back(EndWorkers{finish.outcome.reason});
}

void NodeStateMachine::on_event(const AskedToLeave& leave) {
  if (!leaving_.empty()) return;
  leaving_ = leave.reason;
  leaving_signal_ = leave.signal;
  were_asked_ = true;
  if (link_ == Link::joined) send(Leave{leave.reason, leave.signal});
  // A coordinator in this process waits for nodes until it receives this, so send it even if this
  // node must join first.
  if (has_workers_ || (join_.is_host && link_ != Link::none)) return;
  end_interrupted();
}

/// Sent before the end of the workers, so that this node is not in the next round.
void NodeStateMachine::leave_with_workers_left() {
  if (!leaving_.empty()) return;
  on_event(AskedToLeave{"cannot start workers again: " + *still_running_});
  actions_.emplace_back(Resign{});
}

void NodeStateMachine::end_interrupted() {
  end({.result = RunResult::interrupted,
       .scope = OutcomeScope::node,
       .rounds = join_.last_round + 1,
       .reason = "this node " + leaving_,
       .signal = leaving_signal_});
}

void NodeStateMachine::send(NodeMessage message) {
  actions_.emplace_back(Send{within_bounds(std::move(message))});
}

void NodeStateMachine::end(RunOutcome outcome) {
  has_ended_ = true;
  if (link_ != Link::none) actions_.emplace_back(Disconnect{});
  actions_.emplace_back(EndRun{std::move(outcome)});
}

}  // namespace ddprun::membership
