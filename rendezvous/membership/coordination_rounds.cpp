// Start and end of rounds.
#include "rendezvous/membership/bounds.hpp"
#include "rendezvous/membership/coordination.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::membership {

namespace {

constexpr const char* kAllSucceeded = "all workers succeeded";

std::string reason_of(const WorkersEnded& ended, const std::string& node) {
  if (!ended.not_started.empty()) return ended.not_started;
  return ended.failures.empty() ? node + " has stopped its workers"
                                : ended.failures.front().description;
}

}  // namespace

void Coordination::on_message(NodeId id, const WorkersFailing& failing) {
  if (roster_.find(id) == nullptr || failing.round != round_) return;
  if (phase_ != Phase::running && phase_ != Phase::stopping) return;
  end_.note(id, failing, now_);
  stop_round(failing.reason);
}

void Coordination::on_message(NodeId id, const WorkersEnded& ended) {
  Member* member = roster_.find(id);
  if (member == nullptr || ended.round != round_ || member->workers != Workers::running) return;
  member->workers = ended.have_succeeded ? Workers::succeeded : Workers::ended;
  end_.note(id, ended, now_);
  if (ended.have_succeeded) {
    if (!barrier_end_) barrier_end_ = now_ + settings_.exit_barrier_timeout;
  } else if (phase_ == Phase::running) {
    stop_round(reason_of(ended, member->join.name));
  }
}

void Coordination::consider_round() {
  if (not_before_) {
    if (now_ < *not_before_) return;
    not_before_.reset();
    reach_.expire();
  }
  if (is_host_leaving_) return;
  const int count = roster_.present();
  if (count < settings_.nodes_min) {
    last_call_end_.reset();
    next_retry_.reset();
    retry_pause_.reset();
    if (gather_end_ <= now_)
      finish(RunResult::no_rendezvous,
             describe_shortage(roster_.present_names(), names_of_last_round(), settings_));
    return;
  }
  if (failover_.not_before(now_)) return;
  // Later rounds are formed from the connected nodes; no others are expected.
  const bool is_first = last_nodes_.empty();
  if (count < settings_.nodes_max && is_first) {
    if (!last_call_end_) last_call_end_ = now_ + settings_.last_call_timeout;
    if (now_ < *last_call_end_) return;
  }
  form_largest_round();
}

void Coordination::form_round(const NodeChoice& choice) {
  highest_round_ = round_ = std::max(round_, highest_round_) + 1;
  RoundFormed formed{
      .round = round_, .restarts_used = history_.restarts, .store_port = settings_.store_port};
  hold_back_cut_off(choice);
  const auto by_rank = roster_.form_round(
      choice.chosen, std::min(static_cast<std::size_t>(settings_.nodes_max), kRoundNodesMax));
  last_nodes_.clear();
  for (const NodeId id : by_rank) {
    const Join& join = roster_.find(id)->join;
    last_nodes_.push_back({.name = join.name, .instance = join.instance});
    formed.nodes.push_back(
        {.name = join.name, .role = join.role, .local_world_size = join.local_world_size});
  }
  ++rounds_formed_;
  phase_ = Phase::running;
  last_call_end_.reset();
  barrier_end_.reset();
  end_ = {};
  failover_ = {};
  round_formed_ = now_;
  is_of_former_ = false;
  round_lease_ = settings_.lease;
  reach_.expire();
  retry_pause_.reset();
  actions_.emplace_back(KeepRecord{record()});
  actions_.emplace_back(ClearStore{});
  notify_cut_off(choice);
  for (formed.node_rank = 0; const NodeId id : by_rank) {
    send(id, formed);
    ++formed.node_rank;
  }
  for (const NodeId id : roster_.held_back()) {
    send(id, Waiting{hold_back_reason(roster_.find(id)->join)});
  }
}

/// A failure during an orderly stop makes the stop urgent.
void Coordination::stop_round(const std::string& reason, StopMode mode) {
  const bool is_worse = stop_mode_ == StopMode::orderly && mode == StopMode::urgent;
  if (phase_ != Phase::running && !(phase_ == Phase::stopping && is_worse)) return;
  stop_mode_ = mode;
  phase_ = Phase::stopping;
  for (const auto& [id, member] : roster_.all()) {
    if (member.workers == Workers::running)
      send(id, StopWorkers{round_, reason, mode == StopMode::orderly, interrupting_signal_});
  }
  // Workers may have failed because they cannot reach each other.
  if (mode == StopMode::urgent) begin_probe();
}

/// Peers of a lost node fail immediately. Its loss is detected up to two leases later, if delayed
/// heartbeats renew its lease once more.
void Coordination::change(MembershipChange::Kind kind, const std::string& reason, Time when) {
  if (phase_ == Phase::gathering || phase_ == Phase::finished) return;
  const MembershipChange change{.kind = kind, .reason = reason, .when = when};
  end_.note(change, 2 * settings_.lease);
  stop_round(reason, change.stop_mode());
}

void Coordination::consider_success() {
  if (roster_.count(Workers::running) > 0 || roster_.count(Workers::ended) > 0) return;
  finish(RunResult::succeeded, kAllSucceeded);
}

void Coordination::consider_next() {
  if (roster_.count(Workers::running) > 0) return;
  if (end_.is_success(last_nodes_.size())) return finish(RunResult::succeeded, kAllSucceeded);
  if (!interruption_.empty()) return finish(RunResult::interrupted, interruption_);
  if (can_continue_without_failed_nodes()) return continue_without_failed_nodes();
  if (reach_.is_running()) return;
  const auto next_step = end_.next_step(history_, settings_.restarts, now_);
  if (next_step.spent) history_ = next_step.spent->history;
  if (next_step.end) return finish(*next_step.end, next_step.reason);
  if (next_step.spent) {
    actions_.emplace_back(KeepRecord{record()});
    if (next_step.spent->delay.count() > 0) not_before_ = now_ + next_step.spent->delay;
  }
  gather(next_step.reason, next_step.spent ? next_step.spent->delay : std::chrono::milliseconds(0));
}

/// In the first round the command is probably wrong on all nodes; in later rounds it has worked on
/// some. A run cannot continue without its host, which ends with its agent.
bool Coordination::can_continue_without_failed_nodes() const {
  const auto& unable = end_.unable();
  const bool has_host = std::any_of(unable.begin(), unable.end(), [this](const auto& each) {
    const Member* member = roster_.find(each.node);
    return member != nullptr && member->join.is_host;
  });
  if (round_ == 0 || unable.empty() || has_host) return false;
  return static_cast<int>(last_nodes_.size() - unable.size()) >= settings_.nodes_min;
}

void Coordination::continue_without_failed_nodes() {
  for (const auto& [id, reason] : end_.unable()) {
    if (const auto member = roster_.remove(id)) {
      reach_.forget(id);
      flapping_.note(member->join.name, member->came, now_);
      refuse(id, member->join, reason + "; the other nodes continue without it");
    }
  }
  gather(end_.unable().front().reason + "; the other nodes continue without it");
}

void Coordination::gather(const std::string& reason, std::chrono::milliseconds delay) {
  phase_ = Phase::gathering;
  gather_end_ = now_ + settings_.join_timeout;
  next_retry_.reset();
  barrier_end_.reset();
  roster_.end_round(first_notice(now_));
  const int next = std::max(round_, highest_round_) + 1;
  for (const auto& [id, member] : roster_.all()) {
    if (!member.is_leaving) send(id, NextRound{next, reason, delay});
  }
}

/// Releases successful nodes that have waited long enough for the others.
void Coordination::release_successful() {
  barrier_end_.reset();
  std::vector<NodeId> released;
  std::vector<std::string> others;
  for (const auto& [id, member] : roster_.all()) {
    if (member.workers == Workers::succeeded && !member.join.is_host) released.push_back(id);
    if (member.workers == Workers::running) others.push_back(member.join.name);
  }
  const RunOutcome outcome{
      .scope = OutcomeScope::node,
      .rounds = rounds_formed_,
      .reason = "the workers of this node succeeded, and those of others have not ended after " +
                seconds_text(settings_.exit_barrier_timeout) +
                " (exit_barrier_timeout), and may still fail: " + listed(std::move(others))};
  for (const NodeId id : released) {
    send(id, Finish{outcome});
    actions_.emplace_back(CloseConnection{id});
    roster_.remove(id);
    reach_.forget(id);
  }
}

void Coordination::finish(RunResult result, const std::string& reason) {
  phase_ = Phase::finished;
  reach_.clear();
  outcome_ = RunOutcome{.result = result, .rounds = rounds_formed_, .reason = reason};
  if (result == RunResult::interrupted) outcome_->signal = interrupting_signal_;
  if (result != RunResult::succeeded) end_.add_to(*outcome_);
  actions_.emplace_back(KeepRecord{record(), outcome_});
  farewell_end_ = now_ + settings_.farewell_timeout;
  for (const auto& [id, member] : roster_.all()) send(id, Finish{*outcome_});
}

}  // namespace ddprun::membership
