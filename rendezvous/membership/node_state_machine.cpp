#include "rendezvous/membership/node_state_machine.hpp"

#include "rendezvous/membership/bounds.hpp"
#include "rendezvous/membership/outsider.hpp"

#include <algorithm>

namespace ddprun::membership {

namespace {

// Agents may start in any order, so the first attempts often fail; a small job should not notice.
constexpr auto kFirstPause = std::chrono::milliseconds(50);
constexpr auto kLongestPause = std::chrono::milliseconds(1000);

/// How long listeners are asked again that refuse this node without a proof that they know the
/// secret: another program may hold the port for a while, but usually the secret differs.
constexpr auto kDoubtLimit = std::chrono::seconds(30);
constexpr auto kQuietStart = std::chrono::milliseconds(1000);

/// The part of a lease by which the node ends it early: time to kill its workers.
constexpr int kMarginOfLease = 6;

/// A machine under load runs an agent later than it wanted to, but not by so much.
constexpr auto kNoticedAbsence = std::chrono::milliseconds(1000);

/// Probes at a time. A coordinator begins one while another is under way only when workers fail.
constexpr int kProbesMax = 4;

/// Whether the receiver's place in the round is that of this node.
bool has_place_of(const Join& self, const RoundFormed& round) {
  if (round.node_rank < 0 || std::cmp_greater_equal(round.node_rank, round.nodes.size())) {
    return false;
  }
  const auto& own = round.nodes[static_cast<std::size_t>(round.node_rank)];
  return own.local_world_size == self.local_world_size && own.role == self.role;
}

}  // namespace

NodeStateMachine::NodeStateMachine(Join join, const Settings& settings, Time now)
    : join_(std::move(join)),
      is_local_(settings.is_local()),
      rejoin_timeout_(settings.rejoin_timeout),
      memory_(memory_of_run(settings)),
      answer_timeout_(settings.answer_timeout),
      now_(now),
      give_up_(now + settings.join_timeout),
      give_up_after_(settings.join_timeout),
      pause_(kFirstPause),
      next_announcement_(now + kQuietStart),
      announcement_pause_(settings.waiting_notice) {}

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
  // An agent that was stopped finds much to do when it goes on: the end of its lease comes first.
  if (!std::holds_alternative<ConnectionLost>(event)) check_lease();
  std::visit([&](const auto& value) { take(value); }, event);
  return std::exchange(actions_, {});
}

std::optional<Time> NodeStateMachine::next_wake() const {
  if (has_ended_) return std::nullopt;
  if (link_ == Link::joining) return answer_end_;
  if (link_ != Link::joined) return std::nullopt;
  const Time next = std::min(next_heartbeat_, lease_end());
  return next == Time::max() ? std::nullopt : std::optional(next);
}

// The connection.

void NodeStateMachine::take(const Connected& connected) {
  if (link_ != Link::connecting) return;
  link_ = Link::joining;
  term_end_ = connected.term_end;
  ++join_.connection;
  if (join_.last_round >= 0) {
    join_.since_round = std::chrono::floor<std::chrono::milliseconds>(now_ - round_heard_);
  }
  if (!connected.where.empty()) rendezvous_ = connected.where;
  join_.probe = connected.probe;
  answer_begin_ = now_;
  answer_end_ = std::min(now_ + answer_timeout_, give_up_);
  // The lease begins when the coordinator reads this, which is later than now.
  unanswered_.assign(1, {0, now_});
  send(join_);
}

void NodeStateMachine::take(const ConnectionLost& lost) {
  first_doubt_.reset();
  if (link_ == Link::connecting) {
    // An attempt that the limit has cut off knows less than those before.
    if (last_problem_.empty() || now_ < give_up_) last_problem_ = lost.reason;
    return try_again();
  }
  if (link_ != Link::none) lose_connection(lost.reason);
}

void NodeStateMachine::take(const JoinRejected& rejected) {
  if (link_ != Link::connecting) return;
  const auto& outcome = rejected.outcome;
  if (join_.last_round < 0 && outcome.scope == OutcomeScope::run) {
    const bool is_good = outcome.result == RunResult::succeeded;
    actions_.emplace_back(Announce{
        "the run \"" + join_.run_id + "\" has " + (is_good ? "succeeded" : "ended") +
            " already, without this node: nothing is run here, and how it ended is told as if this "
            "was it; a new run needs another --rdzv_id, as etcd keeps that for " +
            seconds_text(memory_) + " after the end (twice rejoin_timeout)",
        true});
  }
  end(rejected.outcome);
}

/// Whoever had workers in a round must see that nothing of them is left before it can come back.
void NodeStateMachine::lose_connection(const std::string& reason) {
  const bool had_joined = link_ == Link::joined;
  link_ = Link::none;
  unanswered_.clear();
  probe_number_.reset();
  is_of_this_connection_ = false;
  last_problem_ = reason;
  if (outcome_) return;
  if (!leaving_.empty() && !has_workers_) {
    return end_interrupted();
  }
  if (interruption_) return on_message(Finish{*interruption_});
  if (had_joined) {
    loss_ = reason + absence();
    give_up_after_ = rejoin_timeout_;
    give_up_ = now_ + rejoin_timeout_;
    pause_ = kFirstPause;
    actions_.emplace_back(Announce{"the rendezvous is lost: " + loss_, true});
  }
  if (has_workers_) {
    actions_.emplace_back(EndWorkers{"the rendezvous is lost", true});
  } else {
    try_again();
  }
}

/// Its agent was stopped, or the machine slept.
std::string NodeStateMachine::absence() const {
  if (absence_ < kNoticedAbsence) return {};
  const bool are_killed = has_workers_ && lease_end() <= now_;
  return "; this agent has not run for " + seconds_text(absence_) +
         (are_killed ? ", and its guardian has killed the workers when the lease ended" : "");
}

std::string NodeStateMachine::why_given_up() const {
  const std::string end = "; gave up after " + seconds_text(give_up_after_);
  if (loss_.empty()) return last_problem_ + end + " (join_timeout)";
  return "the rendezvous was lost (" + loss_ + ") and could not be had again: " + last_problem_ +
         end + " (rejoin_timeout)";
}

void NodeStateMachine::try_again() {
  if (now_ >= give_up_) {
    return end({.result = RunResult::no_rendezvous,
                .rounds = join_.last_round + 1,
                .reason = why_given_up()});
  }
  if (now_ >= next_announcement_) {
    const Time limit = first_doubt_ ? std::min(give_up_, *first_doubt_ + kDoubtLimit) : give_up_;
    next_announcement_ = now_ + announcement_pause_;
    actions_.emplace_back(
        Announce{last_problem_ + "; trying again for " +
                 seconds_text(std::chrono::ceil<std::chrono::seconds>(limit - now_))});
  }
  link_ = Link::connecting;
  actions_.emplace_back(Connect{std::min(now_ + pause_, give_up_)});
  pause_ = std::min(2 * pause_, kLongestPause);
}

void NodeStateMachine::on_message(const Welcome& welcome) {
  if (link_ != Link::joining) return;
  link_ = Link::joined;
  first_doubt_.reset();
  loss_.clear();
  lease_ = welcome.lease;
  // The host's coordinator tells its operator itself.
  if (!join_.is_host && !welcome.warning.empty() && welcome.warning != last_warning_)
    actions_.emplace_back(Announce{welcome.warning, true});
  last_warning_ = welcome.warning;
  renew_lease(unanswered_.front().second);
  unanswered_.clear();
  plan_heartbeat();
  if (!leaving_.empty()) send(Leave{leaving_, leaving_signal_});
}

void NodeStateMachine::on_message(const Refused& refused) {
  end(refusal_of(refused.reason));
}

/// Any program that holds the port can send a refusal.
void NodeStateMachine::doubt(const Refused& refused) {
  if (!first_doubt_) first_doubt_ = now_;
  if (now_ >= *first_doubt_ + kDoubtLimit) return on_message(refused);
  actions_.emplace_back(Disconnect{});
  lose_connection(refused.reason);
}

void NodeStateMachine::on_message(const HeartbeatAnswer& answer) {
  while (!unanswered_.empty() && unanswered_.front().first <= answer.number) {
    renew_lease(unanswered_.front().second);
    unanswered_.pop_front();
  }
}

/// From when the coordinator was asked for it, which is before it has granted it.
void NodeStateMachine::renew_lease(Time asked) {
  granted_end_ = lease_.count() == 0 ? Time::max() : asked + lease_ - lease_ / kMarginOfLease;
  guard_workers();
}

void NodeStateMachine::plan_heartbeat() {
  next_heartbeat_ = lease_.count() == 0 ? Time::max() : now_ + lease_ / kHeartbeatsPerLease;
}

/// Of a term only that counts under which this node has joined.
void NodeStateMachine::take(const TermRenewed& renewed) {
  if (link_ != Link::joining && link_ != Link::joined) return;
  if (term_end_ == Time::max() || renewed.end <= term_end_) return;
  term_end_ = renewed.end;
  if (link_ == Link::joined) guard_workers();
}

void NodeStateMachine::guard_workers() {
  if (outcome_ || guarded_until_ == lease_end()) return;
  guarded_until_ = lease_end();
  actions_.emplace_back(GuardUntil{guarded_until_});
}

void NodeStateMachine::check_lease() {
  if (link_ != Link::joined || now_ < lease_end()) return;
  actions_.emplace_back(Disconnect{});
  lose_connection(term_end_ <= now_ ? "this node no longer hosts it"
                                    : rendezvous_ + " has not answered for " +
                                          seconds_text(lease_ - lease_ / kMarginOfLease));
}

/// Whoever accepts connections and says nothing is a process that hangs, or no rendezvous. What was
/// connected to at the limit had no time to say anything.
std::string NodeStateMachine::silence() const {
  using Tenths = std::chrono::duration<std::int64_t, std::deci>;
  const auto waited = std::chrono::round<Tenths>(answer_end_ - answer_begin_);
  if (waited == Tenths(0) && !last_problem_.empty()) return last_problem_;
  return rendezvous_ + " takes connections but has not answered for " + seconds_text(waited) +
         ": it hangs, or is something else, such as a torchrun";
}

void NodeStateMachine::take(const NodeTimePassed&) {
  if (link_ == Link::joining && now_ >= answer_end_) {
    actions_.emplace_back(Disconnect{});
    return lose_connection(silence());
  }
  if (link_ != Link::joined || now_ < next_heartbeat_) return;
  unanswered_.emplace_back(++last_heartbeat_, now_);
  send(Heartbeat{last_heartbeat_});
  plan_heartbeat();
}

// Rounds.

void NodeStateMachine::take(const MessageReceived& says) {
  if (link_ != Link::joining && link_ != Link::joined) return;
  const auto* refused = std::get_if<Refused>(&says.message);
  if (refused != nullptr && !says.is_proven) return doubt(*refused);
  std::visit([&](const auto& message) { on_message(message); }, says.message);
}

/// A coordinator that does not know yet whether there is a place for this node says so from time to
/// time: it is there.
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
    return lose_connection("it formed a round without a place for this node");
  }
  // A round that was begun already, or begins while workers are left, is none of ours.
  if (has_workers_ || round.round <= join_.last_round) {
    actions_.emplace_back(Disconnect{});
    return lose_connection("it formed round " + std::to_string(round.round) + " out of turn");
  }
  join_.last_round = round.round;
  join_.restarts_used = round.restarts_used;
  round_heard_ = now_;
  // It was formed while this node's leave was on its way.
  if (!leaving_.empty()) return send(WorkersEnded{.round = round.round, .were_asked = true});
  has_workers_ = true;
  has_lost_round_ = true;
  were_asked_ = false;
  is_of_this_connection_ = true;
  // Both would write the same files. Earlier workers have succeeded, or it would have left then.
  if (still_running_) return take(OwnWorkersEnded{.still_running = still_running_});
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

/// Further ones are not answered, as if the answers were lost.
void NodeStateMachine::on_message(const Probe& probe) {
  if (probes_under_way_ == kProbesMax) return;
  ++probes_under_way_;
  probe_number_ = probe.number;
  actions_.emplace_back(ProbePeers{++probe_serial_, probe});
}

void NodeStateMachine::take(const PeersProbed& probed) {
  --probes_under_way_;
  if (!probe_number_ || probed.serial != probe_serial_) return;
  send(Probed{*std::exchange(probe_number_, std::nullopt), probed.unreachable});
}

void NodeStateMachine::take(const OwnWorkersFailing& failing) {
  if (is_of_this_connection_) send(WorkersFailing{join_.last_round, failing.reason, were_asked_});
}

void NodeStateMachine::take(const OwnWorkersEnded& ended) {
  if (!has_workers_) return;
  still_running_ = ended.still_running;
  // After a success another round follows only if another node fails.
  if (still_running_ && !ended.have_succeeded && !outcome_ && !is_local_) leave_with_workers_left();
  has_workers_ = false;
  if (is_of_this_connection_) {
    send(WorkersEnded{.round = join_.last_round,
                      .have_succeeded = ended.have_succeeded,
                      .not_started = ended.not_started,
                      .failures = ended.failures,
                      .flights = ended.flights,
                      .were_asked = were_asked_,
                      .no_restart = is_local_ ? ended.no_restart : std::nullopt});
  }
  if (outcome_) return end(*outcome_);
  // The agent beside the coordinator stays until that has told everybody.
  if (!leaving_.empty() && (!join_.is_host || link_ == Link::none)) {
    return end_interrupted();
  }
  if (link_ == Link::none) try_again();
}

// The end.

void NodeStateMachine::on_message(const Finish& finish) {
  outcome_ = finish.outcome;
  if (!has_workers_) return end(*outcome_);
  // No other round follows, so the workers may take their time.
  actions_.emplace_back(GuardUntil{Time::max()});
  actions_.emplace_back(EndWorkers{finish.outcome.reason});
}

void NodeStateMachine::take(const AskedToLeave& leave) {
  if (!leaving_.empty()) return;
  leaving_ = leave.reason;
  leaving_signal_ = leave.signal;
  were_asked_ = true;
  if (link_ == Link::joined) send(Leave{leave.reason, leave.signal});
  // The coordinator beside it waits for nodes until it hears of this, so it must be told even if
  // that takes joining first.
  if (has_workers_ || (join_.is_host && link_ != Link::none)) return;
  end_interrupted();
}

/// Before the end of the workers is reported, so that this node has no part in the next round.
void NodeStateMachine::leave_with_workers_left() {
  if (!leaving_.empty()) return;
  take(AskedToLeave{"cannot start workers again: " + *still_running_});
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
