#include "rendezvous/membership/coordination.hpp"

#include "rendezvous/base/text.hpp"
#include "rendezvous/membership/bounds.hpp"
#include "rendezvous/membership/earliest.hpp"
#include "rendezvous/membership/notices.hpp"

#include <algorithm>
#include <concepts>
#include <limits>
#include <utility>

namespace ddprun::membership {

namespace {

/// Interval of notices to waiting nodes; several fit into their timeout.
constexpr int kNoticesPerAnswer = 3;

/// A process that handles a due event later than this fraction of a lease was stopped.
constexpr int kLateParts = 6;

/// Interval of probes while a node is excluded from a round; a probe costs a few packets.
constexpr std::chrono::milliseconds kProbeInterval = std::chrono::seconds(30);

/// Pause before the second probe; each further one is twice as long, up to kProbeInterval.
constexpr std::chrono::milliseconds kFirstRetryPause = std::chrono::seconds(5);

constexpr const char* kAllSucceeded = "all workers succeeded";

}  // namespace

Coordination::Coordination(Settings settings, Time now)
    : settings_(std::move(settings)),
      now_(now),
      phase_(Gathering{.end = now + settings_.join_timeout}),
      progress_(settings_, now),
      duplicates_(settings_.answer_timeout / kNoticesPerAnswer) {}

Coordination::Coordination(Settings settings, const RunRecord& record, Time now)
    : Coordination(std::move(settings), now) {
  progress_ = RunProgress(settings_, record, now);
  failover_ = FailoverState(record, now + progress_.lease());
}

const RunOutcome* Coordination::outcome() const {
  const auto* finished = std::get_if<Finished>(&phase_);
  return finished == nullptr ? nullptr : &finished->outcome;
}

bool Coordination::is_over() const {
  if (is_host_leaving_ && is_in<Gathering>()) return true;
  return is_in<Finished>() && roster_.all().empty();
}

std::vector<CoordinatorAction> Coordination::apply(const CoordinatorEvent& event, Time now) {
  // A coordinator that was stopped finds connections closed and leases ended: its own fault.
  if (const auto due = next_wake(); due && now - *due > settings_.lease / kLateParts) {
    no_stays_until_ = now + settings_.lease;
  }
  now_ = now;
  actions_.clear();
  if (const auto* received = std::get_if<NodeMessageReceived>(&event)) {
    if (auto* member = roster_.find(received->node)) member->lease_end = lease_end();
    std::visit([&](const auto& message) { on_message(received->node, message); },
               within_bounds(received->message));
  } else if (const auto* gone = std::get_if<NodeDisconnected>(&event)) {
    duplicates_.remove(gone->node);
    lose(gone->node, gone->reason);
  } else if (const auto* leaves = std::get_if<HostLeaves>(&event)) {
    on_host_leaving(*leaves);
  }
  check_time();
  resolve_duplicates();
  consider();
  return std::exchange(actions_, {});
}

std::optional<Time> Coordination::next_wake() const {
  if (is_over()) return std::nullopt;
  const auto notice = duplicates_.next_notice();
  if (const auto* finished = std::get_if<Finished>(&phase_)) {
    return earliest({notice, finished->end});
  }
  const auto event = earliest({notice, roster_.first_lease_end(), reach_.end()});
  if (const auto* gathering = std::get_if<Gathering>(&phase_)) {
    return earliest({event, next_wake_of(*gathering)});
  }
  if (const auto* running = std::get_if<Running>(&phase_)) {
    return earliest({event, running->barrier_end, roster_.next_backoff_expiry(), next_probe_});
  }
  return event;
}

std::optional<Time> Coordination::next_wake_of(const Gathering& gathering) const {
  if (gathering.not_before) return gathering.not_before;
  // The wait for nodes is over when a probe begins.
  const bool is_wait_over = reach_.is_running() || next_probe_;
  const bool are_enough = is_wait_over && roster_.present() >= settings_.nodes_min;
  return earliest({are_enough ? next_probe_ : end_of_wait(gathering), roster_.first_notice(),
                   failover_.not_before(now_)});
}

std::optional<Time> Coordination::end_of_wait(const Gathering& gathering) const {
  const bool are_enough = roster_.present() >= settings_.nodes_min;
  return are_enough ? gathering.last_call_end : std::optional(gathering.end);
}

// Joining.

void Coordination::on_message(NodeId id, const Join& join) {
  if (roster_.find(id) != nullptr || duplicates_.contains(id)) return;  // already joined
  if (const auto reason = objection_to(join, settings_)) return refuse(id, join, *reason);
  // The old connection is lost, possibly not yet reported; or this is the old one.
  if (const auto former = roster_.former_of(join)) {
    if (join.connection < roster_.find(*former)->join.connection) return close(id);
    close(*former);
    lose(*former, "it has reconnected");
  }
  admit(id, join);
}

void Coordination::admit(NodeId id, const Join& join) {
  if (const auto* ended = outcome()) {
    return refuse(id, join, "the run has ended: " + ended->reason);
  }
  if (const auto claim = duplicates_.claim(id, join, roster_, now_)) {
    if (!claim->must_wait) return refuse(id, join, claim->reason);
    return send(id, Waiting{claim->reason});
  }
  progress_.note(join, now_);
  const auto hold_back =
      join.is_host ? std::chrono::milliseconds(0) : flapping_.hold_back(join.name);
  const bool is_held_back = hold_back.count() > 0;
  const auto warning = warnings_.of(join, roster_);
  roster_.add(id,
              {.join = join,
               .lease_end = lease_end(),
               .node_rank = failover_.claim(join.name, join.instance),
               .next_notice = first_notice(now_),
               .came = now_,
               .held_back_until = is_held_back ? std::optional(now_ + hold_back) : std::nullopt});
  send(id, Welcome{settings_.lease, warning, settings_.run_nonce});
  if (is_in<Running>()) admit_to_running_round(id, *roster_.find(id));
}

void Coordination::admit_to_running_round(NodeId id, const Member& member) {
  if (member.held_back_until) {
    send(id, Waiting{describe_hold_back(member.join.name, flapping_)});
  } else if (!has_room_for_others()) {
    send(id, Waiting{describe_full_round(progress_.nodes().size(), settings_.nodes_max)});
  } else if (!reach_.is_running() && !begin_probe()) {  // new nodes take part in the next probe
    change(MembershipChange::Kind::comes, member.join.name + " has joined", now_);
  }
}

/// A round in which some nodes have succeeded is nearly over; do not restart it for a new node.
bool Coordination::has_room_for_others() const {
  const bool has_room = static_cast<int>(progress_.nodes().size()) < settings_.nodes_max;
  return has_room && roster_.count(Workers::succeeded) == 0;
}

void Coordination::admit_held_back() {
  const auto end = roster_.next_backoff_expiry();
  if (!end || *end > now_) return;
  const auto before = roster_.held_back();
  roster_.end_holding_back(now_, 0);
  if (!has_room_for_others() || reach_.is_running() || begin_probe()) return;
  for (const NodeId id : before) {
    const Member& member = *roster_.find(id);
    if (member.held_back_until) continue;
    change(MembershipChange::Kind::comes, member.join.name + " has joined", now_);
  }
}

void Coordination::refuse(NodeId id, const Join& join, const std::string& reason) {
  send(id, Refused{reason, config_to_show(join, settings_)});
  close(id);
}

void Coordination::resolve_duplicates() {
  const auto settled = duplicates_.resolve(roster_, settings_.lease, now_);
  for (const auto& [id, join] : settled.refused) refuse(id, join, DuplicateAgents::refusal(join));
  for (const auto& [id, join] : settled.free) admit(id, join);
  // An agent counts its lease from its request, so this one must join again.
  for (const auto& [id, join] : settled.late) {
    is_in<Finished>() ? admit(id, join) : close(id);
  }
}

// Other messages and events.

void Coordination::on_message(NodeId id, const Heartbeat& heartbeat) {
  if (roster_.find(id) == nullptr) return;
  const int round = progress_.round();
  const auto activity = heartbeat.round == round ? heartbeat.activity : RankActivity{};
  roster_.note(id, activity, now_);
  send(id, HeartbeatAnswer{heartbeat.number, round, roster_.activity_for(id, now_)});
}

void Coordination::on_message(NodeId id, const WorkersFailing& failing) {
  if (roster_.find(id) == nullptr || failing.round != progress_.round()) return;
  if (!is_in<Running>() && !is_in<Stopping>()) return;
  round_end_.note(id, failing, now_);
  stop_round(failing.reason);
}

void Coordination::on_message(NodeId id, const WorkersEnded& ended) {
  Member* member = roster_.find(id);
  const bool is_expected = member != nullptr && member->workers == Workers::running;
  if (!is_expected || ended.round != progress_.round()) return;
  member->workers = ended.have_succeeded ? Workers::succeeded : Workers::ended;
  round_end_.note(id, ended, now_);
  auto* running = std::get_if<Running>(&phase_);
  if (running == nullptr) return;
  if (!ended.have_succeeded) return stop_round(reason_of(ended, member->join.name));
  if (!running->barrier_end) running->barrier_end = now_ + settings_.exit_barrier_timeout;
}

void Coordination::on_message(NodeId id, const Leave& leave) {
  Member* member = roster_.find(id);
  if (member == nullptr || std::exchange(member->is_leaving, true)) return;
  if (member->join.is_host) {
    interrupting_signal_ = leave.signal;
    interruption_ =
        roster_.distinct_name(*member) + ", which hosts the rendezvous, " + leave.reason;
    if (is_in<Running>()) stop_round(interruption_, StopMode::orderly);
    if (is_in<Gathering>()) finish(RunResult::interrupted, interruption_);
    return;
  }
  // Only losses of nodes with workers affect the round.
  if (member->workers == Workers::running || member->workers == Workers::ended) {
    change(MembershipChange::Kind::leaves,
           roster_.distinct_name(*member) + " has left: it " + leave.reason, now_);
  }
}

void Coordination::on_message(NodeId id, const Probed& probed) {
  reach_.note(id, probed);
}

/// Hangs concern all nodes with workers; the rest is reported by the node with rank 0.
template <typename Notice>
void Coordination::forward(NodeId id, Notice notice) {
  const Member* const sender = roster_.find(id);
  if (sender == nullptr || sender->workers == Workers::none || notice.round != progress_.round())
    return;
  notice.node = roster_.distinct_name(*sender);
  for (const NodeId other : roster_.with_workers()) {
    const bool is_for_all = std::same_as<Notice, HangNotice>;
    if (other != id && (is_for_all || roster_.find(other)->node_rank == 0)) send(other, notice);
  }
}

void Coordination::lose(NodeId id, const std::string& reason) {
  const auto member = roster_.remove(id);
  if (!member) return;
  reach_.forget(id);
  if (now_ >= no_stays_until_) flapping_.note(member->join.name, member->came, now_);
  const bool is_missed = member->workers == Workers::running ||
                         (member->workers == Workers::ended && !member->is_leaving);
  if (is_missed) {
    change(MembershipChange::Kind::is_lost, roster_.distinct_name(*member) + " is lost: " + reason,
           std::min(now_, member->lease_end));
  }
}

void Coordination::on_host_leaving(const HostLeaves& leaves) {
  is_host_leaving_ = true;
  change(MembershipChange::Kind::leaves, leaves.reason, now_);
}

void Coordination::check_time() {
  for (const NodeId id : roster_.silent(now_)) {
    close(id);
    lose(id, "it was silent for " + seconds_text(settings_.lease));
  }
  for (const auto& [id, why] : duplicates_.take_due_notices(now_)) send(id, Waiting{why});
  if (const auto* running = std::get_if<Running>(&phase_)) {
    if (running->barrier_end && *running->barrier_end <= now_) release_successful();
    admit_held_back();
  }
  if (reach_.conclude(now_)) use_probe();
  if (next_probe_ && *next_probe_ <= now_) probe_again();
  if (const auto* finished = std::get_if<Finished>(&phase_); finished && finished->end <= now_) {
    for (const auto& [id, member] : roster_.all()) close(id);
    roster_.clear();
  }
}

// Reachability.

/// Returns false if there is nothing to probe; no cuts are known then.
bool Coordination::begin_probe() {
  next_probe_.reset();
  const auto requests = reach_.probe(roster_, settings_.probe_timeout, now_);
  for (const auto& [id, probe] : requests) send(id, probe);
  return !requests.empty();
}

/// Returns true if the reachability of all candidates is known. Otherwise starts a probe if needed.
bool Coordination::knows_reach() {
  if (reach_.is_running()) return false;
  return reach_.covers(roster_.candidates()) || !begin_probe();
}

void Coordination::use_probe() {
  if (is_in<Running>()) {
    if (has_room_for_others()) {
      if (!knows_reach()) return;  // new nodes have joined meanwhile
      admit_reachable();
    }
    // The next round may be much later.
    if (is_in<Running>()) reach_.expire();
    return;
  }
  if (!is_in<Stopping>()) return;
  const auto cuts = cuts_among(roster_.with_workers(), roster_, reach_);
  if (cuts.empty()) return;
  round_end_.note({.kind = MembershipChange::Kind::is_cut,
                   .reason = describe_cuts(cuts),
                   .when = reach_.begun()},
                  2 * settings_.lease);
}

/// Readmits nodes that have become reachable.
void Coordination::probe_again() {
  next_probe_.reset();
  if (is_in<Gathering>()) reach_.expire();
  if (!is_in<Running>() || !has_room_for_others() || reach_.is_running()) return;
  if (!begin_probe()) admit_reachable();
}

/// Ends the round if spare nodes would make the next one larger. If nodes have left the round after
/// their success, reachable spares count.
void Coordination::admit_reachable() {
  const auto choice = choose_nodes(roster_, reach_);
  auto spares = spare_nodes(roster_, choice);
  const auto size = std::min(choice.chosen.size(), static_cast<std::size_t>(settings_.nodes_max));
  if (size > static_cast<std::size_t>(roster_.count(Workers::running))) {
    const std::string verb = spares.reachable.size() == 1 ? " has" : " have";
    return change(MembershipChange::Kind::comes,
                  listed(std::move(spares.reachable)) + verb + " joined", now_);
  }
  if (spares.ids.empty()) return;
  next_probe_ = now_ + kProbeInterval;
  const auto text = describe_cuts(choice, roster_, reach_) +
                    "; the others continue without this node" + describe_probes(kProbeInterval);
  for (const NodeId id : spares.ids) send(id, Waiting{text, true});
}

/// The network may recover soon, or other nodes may join.
void Coordination::wait_for_reach(Gathering& gathering, const NodeChoice& choice) {
  if (gathering.end <= now_) {
    round_end_ = {};  // workers that failed at the cut are not the cause
    return finish(RunResult::no_rendezvous,
                  describe_shortage_of_reach(choice, roster_, reach_, settings_.nodes_min) +
                      "; gave up after " + seconds_text(settings_.join_timeout) +
                      " (join_timeout; --rdzv_conf=probe_timeout=0 disables this check)");
  }
  const bool is_first = !gathering.retry_pause;
  gathering.retry_pause =
      is_first ? kFirstRetryPause : std::min(2 * *gathering.retry_pause, kProbeInterval);
  next_probe_ = std::min(now_ + *gathering.retry_pause, gathering.end);
  if (is_first) roster_.notify_at(now_);
}

void Coordination::notify_cut_off(const NodeChoice& choice) {
  next_probe_.reset();
  if (choice.cut_off.empty()) return;
  std::vector<std::string> names;
  for (const NodeId id : choice.cut_off) {
    const Member& member = *roster_.find(id);
    names.push_back(member.join.name);
    if (!member.held_back_until) next_probe_ = now_ + kProbeInterval;
  }
  const auto text = describe_cuts(choice, roster_, reach_) + ": the round begins without " +
                    listed(std::move(names)) +
                    (next_probe_ ? describe_probes(kProbeInterval) : std::string());
  for (const auto& [id, member] : roster_.all()) {
    if (!member.is_leaving) send(id, Waiting{text, true});
  }
}

// Rounds.

void Coordination::consider() {
  if (is_in<Running>()) consider_success();
  if (is_in<Stopping>()) consider_next();
  if (auto* gathering = std::get_if<Gathering>(&phase_)) consider_round(*gathering);
  const auto* gathering = std::get_if<Gathering>(&phase_);
  if (gathering != nullptr && !gathering->not_before) notify_waiting(*gathering);
}

void Coordination::consider_round(Gathering& gathering) {
  if (gathering.not_before) {
    if (now_ < *gathering.not_before) return;
    gathering.not_before.reset();
    reach_.expire();
  }
  if (is_host_leaving_) return;
  const int count = roster_.present();
  if (count < settings_.nodes_min) {
    gathering.last_call_end.reset();
    gathering.retry_pause.reset();
    next_probe_.reset();
    if (gathering.end <= now_)
      finish(RunResult::no_rendezvous,
             describe_shortage(roster_.present_names(), progress_.node_names(), settings_));
    return;
  }
  if (failover_.not_before(now_)) return;
  // Later rounds are formed from the connected nodes; no others are expected.
  const bool is_first = progress_.nodes().empty();
  if (count < settings_.nodes_max && is_first) {
    if (!gathering.last_call_end) gathering.last_call_end = now_ + settings_.last_call_timeout;
    if (now_ < *gathering.last_call_end) return;
  }
  form_largest_round(gathering);
}

void Coordination::form_largest_round(Gathering& gathering) {
  const auto least = static_cast<std::size_t>(settings_.nodes_min);
  roster_.end_holding_back(now_, settings_.nodes_min);
  if (!knows_reach() || next_probe_) return;
  auto choice = choose_nodes(roster_, reach_);
  if (choice.chosen.size() < least && !roster_.held_back().empty()) {
    roster_.end_holding_back(now_, std::numeric_limits<int>::max());
    if (!knows_reach()) return;
    choice = choose_nodes(roster_, reach_);
  }
  if (choice.chosen.size() >= least) return form_round(choice);
  wait_for_reach(gathering, choice);
}

void Coordination::form_round(const NodeChoice& choice) {
  flapping_.hold_back(choice.cut_off, roster_, now_);
  const auto by_rank = roster_.form_round(
      choice.chosen, std::min(static_cast<std::size_t>(settings_.nodes_max), kRoundNodesMax));
  phase_ = Running{};
  round_end_ = {};
  progress_.begin_round(settings_, now_);
  failover_ = {};
  reach_.expire();
  RoundFormed formed{.round = progress_.round(),
                     .restarts_used = restarts_used(),
                     .store_port = settings_.store_port};
  for (const NodeId id : by_rank) {
    progress_.add_node(roster_.find(id)->join);
    formed.nodes.push_back(roster_.place_of(id));
  }
  actions_.emplace_back(KeepRecord{record()});
  actions_.emplace_back(ClearStore{});
  notify_cut_off(choice);
  for (formed.node_rank = 0; const NodeId id : by_rank) {
    send(id, formed);
    ++formed.node_rank;
  }
  for (const NodeId id : roster_.held_back()) {
    send(id, Waiting{describe_hold_back(roster_.find(id)->join.name, flapping_)});
  }
}

/// A failure during an orderly stop makes the stop urgent.
void Coordination::stop_round(const std::string& reason, StopMode mode) {
  const auto* stopping = std::get_if<Stopping>(&phase_);
  const bool becomes_urgent =
      stopping != nullptr && stopping->mode == StopMode::orderly && mode == StopMode::urgent;
  if (!is_in<Running>() && !becomes_urgent) return;
  phase_ = Stopping{mode};
  next_probe_.reset();
  for (const auto& [id, member] : roster_.all()) {
    if (member.workers == Workers::running)
      send(id,
           StopWorkers{progress_.round(), reason, mode == StopMode::orderly, interrupting_signal_});
  }
  // Workers may have failed because they cannot reach each other.
  if (mode == StopMode::urgent) begin_probe();
}

/// Peers of a lost node fail immediately. Its loss is detected up to two leases later, if delayed
/// heartbeats renew its lease once more.
void Coordination::change(MembershipChange::Kind kind, const std::string& reason, Time when) {
  if (is_in<Gathering>() || is_in<Finished>()) return;
  const MembershipChange change{.kind = kind, .reason = reason, .when = when};
  round_end_.note(change, 2 * settings_.lease);
  stop_round(reason, change.stop_mode());
}

void Coordination::consider_success() {
  if (roster_.count(Workers::running) > 0 || roster_.count(Workers::ended) > 0) return;
  finish(RunResult::succeeded, kAllSucceeded);
}

void Coordination::consider_next() {
  if (roster_.count(Workers::running) > 0) return;
  if (round_end_.is_success(progress_.nodes().size()))
    return finish(RunResult::succeeded, kAllSucceeded);
  if (!interruption_.empty()) return finish(RunResult::interrupted, interruption_);
  if (can_continue_without_failed_nodes()) return continue_without_failed_nodes();
  if (reach_.is_running()) return;
  const auto next_step = round_end_.next_step(progress_.restarts, settings_.restarts, now_);
  if (next_step.spent) progress_.restarts = next_step.spent->history;
  if (next_step.end) return finish(*next_step.end, next_step.reason);
  if (!next_step.spent) return gather(next_step.reason);
  actions_.emplace_back(KeepRecord{record()});
  gather(next_step.reason, next_step.spent->delay);
}

/// In the first round the command is probably wrong on all nodes; in later rounds it has worked on
/// some. A run cannot continue without its host, which ends with its agent.
bool Coordination::can_continue_without_failed_nodes() const {
  const auto& unable = round_end_.unable();
  const bool has_host = std::any_of(unable.begin(), unable.end(), [this](const auto& each) {
    const Member* member = roster_.find(each.node);
    return member != nullptr && member->join.is_host;
  });
  if (progress_.round() == 0 || unable.empty() || has_host) return false;
  return static_cast<int>(progress_.nodes().size() - unable.size()) >= settings_.nodes_min;
}

void Coordination::continue_without_failed_nodes() {
  for (const auto& [id, reason] : round_end_.unable()) {
    if (const auto member = roster_.remove(id)) {
      reach_.forget(id);
      flapping_.note(member->join.name, member->came, now_);
      refuse(id, member->join, reason + "; the other nodes continue without it");
    }
  }
  gather(round_end_.unable().front().reason + "; the other nodes continue without it");
}

void Coordination::gather(const std::string& reason, std::chrono::milliseconds delay) {
  Gathering gathering{.end = now_ + settings_.join_timeout};
  if (delay.count() > 0) gathering.not_before = now_ + delay;
  phase_ = gathering;
  roster_.end_round(first_notice(now_));
  for (const auto& [id, member] : roster_.all()) {
    if (!member.is_leaving) send(id, NextRound{progress_.next_round(), reason, delay});
  }
}

/// Releases successful nodes that have waited long enough for the others.
void Coordination::release_successful() {
  phase_ = Running{};
  std::vector<NodeId> released;
  std::vector<std::string> others;
  for (const auto& [id, member] : roster_.all()) {
    if (member.workers == Workers::succeeded && !member.join.is_host) released.push_back(id);
    if (member.workers == Workers::running) others.push_back(member.join.name);
  }
  const RunOutcome outcome{.scope = OutcomeScope::node,
                           .rounds = progress_.rounds_formed(),
                           .reason = describe_release(std::move(others), settings_)};
  for (const NodeId id : released) {
    send(id, Finish{outcome});
    close(id);
    roster_.remove(id);
    reach_.forget(id);
  }
}

void Coordination::finish(RunResult result, const std::string& reason) {
  RunOutcome outcome{.result = result, .rounds = progress_.rounds_formed(), .reason = reason};
  if (result == RunResult::interrupted) outcome.signal = interrupting_signal_;
  if (result != RunResult::succeeded) round_end_.add_to(outcome);
  reach_.clear();
  actions_.emplace_back(KeepRecord{record(), outcome});
  for (const auto& [id, member] : roster_.all()) send(id, Finish{outcome});
  phase_ = Finished{std::move(outcome), now_ + settings_.farewell_timeout};
}

// Messages to nodes.

void Coordination::send(NodeId id, CoordinatorMessage message) {
  actions_.emplace_back(SendToNode{id, std::move(message)});
}

void Coordination::notify_waiting(const Gathering& gathering) {
  const auto ids = roster_.take_notices(now_, now_ + settings_.waiting_notice);
  if (ids.empty()) return;
  const int least = settings_.nodes_min;
  const auto choice = gathering.retry_pause ? choose_nodes(roster_, reach_) : NodeChoice{};
  // New nodes are assumed to reach all others until they are probed.
  const bool is_cut =
      gathering.retry_pause && choice.chosen.size() < static_cast<std::size_t>(least);
  const auto wait_end = end_of_wait(gathering);
  const auto text =
      is_cut ? describe_shortage_of_reach(choice, roster_, reach_, least) +
                   describe_probing_again(gathering.end - now_)
             : describe_waiting(roster_.present_names(), progress_.node_names(), settings_,
                                wait_end ? *wait_end - now_ : Time::duration::zero());
  for (const NodeId id : ids) send(id, Waiting{text, is_cut});
}

Time Coordination::lease_end() const {
  return settings_.is_local() ? Time::max() : now_ + settings_.lease;
}

}  // namespace ddprun::membership
