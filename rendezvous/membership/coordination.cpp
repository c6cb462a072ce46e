#include "rendezvous/membership/coordination.hpp"

#include "rendezvous/base/text.hpp"
#include "rendezvous/membership/bounds.hpp"
#include "rendezvous/membership/earliest.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::membership {

namespace {

/// Interval of notices to waiting nodes; several fit into their timeout.
constexpr int kWordsPerAnswer = 3;

/// If an event is handled later than this fraction of a lease after it was due, this process was
/// stopped.
constexpr int kLateParts = 6;

}  // namespace

Coordination::Coordination(Settings settings, Time now)
    : settings_(std::move(settings)),
      now_(now),
      duplicates_(settings_.answer_timeout / kWordsPerAnswer),
      round_formed_(now),
      round_lease_(settings_.lease),
      gather_end_(now + settings_.join_timeout) {}

Coordination::Coordination(Settings settings, const RunRecord& record, Time now)
    : Coordination(std::move(settings), now) {
  round_ = highest_round_ = record.round;
  rounds_formed_ = record.rounds_formed;
  last_nodes_ = record.nodes;
  history_ = history_of(record, now);
  round_formed_ = now - record.since_round;
  is_of_former_ = true;
  round_lease_ = std::max(settings_.lease, record.lease);
  failover_ = FailoverState(record, now + round_lease_);
}

RunRecord Coordination::record() const {
  auto record = record_of(settings_, history_, now_);
  record.round = round_;
  record.rounds_formed = rounds_formed_;
  record.nodes = last_nodes_;
  record.lease = round_lease_;
  record.since_round = std::chrono::ceil<std::chrono::milliseconds>(now_ - round_formed_);
  return record;
}

bool Coordination::is_over() const {
  if (is_host_leaving_ && phase_ == Phase::gathering) return true;
  return phase_ == Phase::finished && roster_.all().empty();
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
  const auto word = duplicates_.next_notice();
  const auto event = earliest({word, roster_.first_lease_end(), reach_.end()});
  switch (phase_) {
    case Phase::gathering:
      return earliest({event, next_of_gathering()});
    case Phase::running:
      return earliest({event, barrier_end_, roster_.next_backoff_expiry(), next_retry_});
    case Phase::stopping:
      return event;
    case Phase::finished:
      return earliest({word, farewell_end_});
  }
  return event;
}

std::optional<Time> Coordination::next_of_gathering() const {
  if (not_before_) return not_before_;
  // The wait for nodes is over when a probe begins.
  const bool is_wait_over = reach_.is_running() || next_retry_;
  const bool are_enough = is_wait_over && roster_.present() >= settings_.nodes_min;
  return earliest({are_enough ? next_retry_ : end_of_wait(), roster_.first_notice(),
                   failover_.not_before(now_)});
}

// Messages from nodes.

void Coordination::on_message(NodeId id, const Heartbeat& heartbeat) {
  if (roster_.find(id) != nullptr) send(id, HeartbeatAnswer{heartbeat.number});
}

void Coordination::on_message(NodeId id, const Leave& leave) {
  Member* member = roster_.find(id);
  if (member == nullptr || std::exchange(member->is_leaving, true)) return;
  if (member->join.is_host) {
    interrupting_signal_ = leave.signal;
    interruption_ =
        roster_.distinct_name(*member) + ", which hosts the rendezvous, " + leave.reason;
    if (phase_ == Phase::running) stop_round(interruption_, StopMode::orderly);
    if (phase_ == Phase::gathering) finish(RunResult::interrupted, interruption_);
    return;
  }
  // Only losses of nodes with workers affect the round.
  if (member->workers == Workers::running || member->workers == Workers::ended) {
    change(MembershipChange::Kind::leaves,
           roster_.distinct_name(*member) + " has left: it " + leave.reason, now_);
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
    actions_.emplace_back(CloseConnection{id});
    lose(id, "it was silent for " + seconds_text(settings_.lease));
  }
  for (const auto& [id, why] : duplicates_.take_due_notices(now_)) send(id, Waiting{why});
  if (phase_ == Phase::running && barrier_end_ && *barrier_end_ <= now_) release_successful();
  if (phase_ == Phase::running) admit_held_back();
  if (reach_.conclude(now_)) use_probe();
  if (next_retry_ && *next_retry_ <= now_) retry();
  if (phase_ == Phase::finished && farewell_end_ && *farewell_end_ <= now_) {
    for (const auto& [id, member] : roster_.all()) actions_.emplace_back(CloseConnection{id});
    roster_.clear();
  }
}

void Coordination::consider() {
  if (phase_ == Phase::running) consider_success();
  if (phase_ == Phase::stopping) consider_next();
  if (phase_ == Phase::gathering) consider_round();
  if (phase_ == Phase::gathering && !not_before_) notify_waiting();
}

// Messages to nodes.

void Coordination::send(NodeId id, CoordinatorMessage message) {
  actions_.emplace_back(SendToNode{id, std::move(message)});
}

void Coordination::notify_waiting() {
  const auto ids = roster_.take_notices(now_, now_ + settings_.waiting_notice);
  if (ids.empty()) return;
  const auto choice = retry_pause_ ? choose_nodes(roster_, reach_) : NodeChoice{};
  // New nodes are assumed to reach all others until they are probed.
  const bool is_cut =
      retry_pause_ && choice.chosen.size() < static_cast<std::size_t>(settings_.nodes_min);
  const auto text = is_cut ? describe_waiting_for_reach(choice) : describe_waiting_for_nodes();
  for (const NodeId id : ids) send(id, Waiting{text, is_cut});
}

std::string Coordination::describe_waiting_for_nodes() const {
  const auto end = end_of_wait();
  auto text = describe_waiting(roster_.present_names(), names_of_last_round(), settings_);
  if (end && *end > now_) {
    const bool are_enough = roster_.present() >= settings_.nodes_min;
    text += std::string("; waiting ") + (are_enough ? "for more, " : "") + "for " +
            seconds_text(std::chrono::ceil<std::chrono::seconds>(*end - now_)) + " at most";
  }
  return text;
}

std::optional<Time> Coordination::end_of_wait() const {
  return roster_.present() >= settings_.nodes_min ? last_call_end_ : std::optional(gather_end_);
}

Time Coordination::lease_end() const {
  return settings_.is_local() ? Time::max() : now_ + settings_.lease;
}

std::vector<std::string> Coordination::names_of_last_round() const {
  std::vector<std::string> names;
  for (const auto& node : last_nodes_) names.push_back(node.name);
  return names;
}

}  // namespace ddprun::membership
