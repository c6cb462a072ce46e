#include "rendezvous/membership/coordination.hpp"

#include "rendezvous/base/text.hpp"
#include "rendezvous/membership/bounds.hpp"
#include "rendezvous/membership/earliest.hpp"
#include "rendezvous/membership/node_order.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::membership {

Coordination::Coordination(Settings settings, Time now)
    : settings_(std::move(settings)),
      now_(now),
      gather_end_(now + settings_.join_timeout),
      next_notice_(now + settings_.waiting_notice) {}

Coordination::Coordination(Settings settings, const RunRecord& record, Time now)
    : Coordination(std::move(settings), now) {
  round_ = highest_round_ = record.round;
  rounds_formed_ = record.rounds_formed;
  last_names_ = record.nodes;
  history_ = history_of(record, now);
  succession_ = Succession(record, now + settings_.lease);
}

RunRecord Coordination::record() const {
  auto record = record_of(settings_, history_, now_);
  record.round = round_;
  record.rounds_formed = rounds_formed_;
  record.nodes = last_names_;
  return record;
}

bool Coordination::is_over() const {
  if (is_host_leaving_ && phase_ == Phase::gathering) return true;
  return phase_ == Phase::finished && members_.empty();
}

std::vector<CoordinatorAction> Coordination::apply(const CoordinatorEvent& event, Time now) {
  now_ = now;
  actions_.clear();
  if (const auto* says = std::get_if<NodeSays>(&event)) {
    const auto member = members_.find(says->node);
    if (member != members_.end()) member->second.lease_end = now_ + settings_.lease;
    std::visit([&](const auto& message) { hear(says->node, message); },
               within_bounds(says->message));
  } else if (const auto* gone = std::get_if<NodeGone>(&event)) {
    lose(gone->node, gone->reason);
  } else if (const auto* leaves = std::get_if<HostLeaves>(&event)) {
    let_go(*leaves);
  }
  check_time();
  consider();
  return std::exchange(actions_, {});
}

std::optional<Time> Coordination::next_wake() const {
  if (is_over()) return std::nullopt;
  std::optional<Time> lease_end;
  for (const auto& [id, member] : members_) lease_end = earliest({lease_end, member.lease_end});
  switch (phase_) {
    case Phase::gathering:
      if (not_before_) return earliest({lease_end, not_before_});
      return earliest({lease_end, last_call_end_ ? last_call_end_ : gather_end_, next_notice_,
                       succession_.not_before(now_)});
    case Phase::running:
      return earliest({lease_end, barrier_end_});
    case Phase::stopping:
      return lease_end;
    case Phase::finished:
      return farewell_end_;
  }
  return lease_end;
}

// What nodes say.

std::string Coordination::objection(const Join& join) const {
  if (const auto text = objection_to(join, settings_); !text.empty()) return text;
  for (const auto& [id, member] : members_) {
    if (join.node_rank < 0 || member.join.node_rank != join.node_rank) continue;
    return "--node_rank=" + std::to_string(join.node_rank) + " is that of " + member.join.name +
           " already";
  }
  if (phase_ == Phase::finished) return "the run has ended: " + verdict_->reason;
  return {};
}

void Coordination::hear(NodeId id, const Join& join) {
  if (members_.contains(id)) return;  // a connection joins once
  lose_former(join);
  if (const auto reason = objection(join); !reason.empty()) {
    tell(id, Refused{reason, config_to_show(join, settings_)});
    actions_.emplace_back(HangUp{id});
    return;
  }
  // After a restart of the coordinator the nodes know better than it how far the run had come.
  highest_round_ = std::max(highest_round_, join.last_round);
  history_.restarts = std::max(history_.restarts, join.restarts_used);
  members_.emplace(id, Member{.join = join,
                              .lease_end = now_ + settings_.lease,
                              .node_rank = succession_.claim(join.name)});
  tell(id, Welcome{settings_.lease});
  if (phase_ != Phase::running) return;
  // A round of which some have succeeded is nearly over: it is not begun anew for a newcomer.
  const bool has_room = static_cast<int>(last_names_.size()) < settings_.nodes_max;
  if (has_room && taking_part(Workers::succeeded) == 0) {
    change_of_membership(join.name + " has joined", now_, Manner::orderly);
  } else {
    tell(id, Waiting{"the round has " + counted_nodes(static_cast<int>(last_names_.size())) +
                     " of at most " + std::to_string(settings_.nodes_max) +
                     "; this one waits to take the place of another"});
  }
}

/// A node that has lost its connection comes back when its workers have ended, and may be here
/// before the news of that.
void Coordination::lose_former(const Join& join) {
  const auto former = std::find_if(members_.begin(), members_.end(), [&](const auto& entry) {
    const Join& other = entry.second.join;
    return join.last_round >= 0 && join.node_rank >= 0 && other.node_rank == join.node_rank &&
           other.name == join.name;
  });
  if (former == members_.end()) return;
  actions_.emplace_back(HangUp{former->first});
  lose(former->first, "it has come back over another connection");
}

void Coordination::hear(NodeId id, const Heartbeat& heartbeat) {
  if (members_.contains(id)) tell(id, HeartbeatAnswer{heartbeat.number});
}

void Coordination::hear(NodeId id, const WorkersFailing& failing) {
  if (!members_.contains(id) || failing.round != round_) return;
  if (phase_ != Phase::running && phase_ != Phase::stopping) return;
  failures_.note(id, failing.reason, now_);
  stop_round(failing.reason);
}

void Coordination::hear(NodeId id, const WorkersEnded& ended) {
  const auto found = members_.find(id);
  if (found == members_.end() || ended.round != round_) return;
  Member& member = found->second;
  if (member.workers != Workers::running) return;
  member.workers = ended.have_succeeded ? Workers::succeeded : Workers::ended;
  if (ended.have_succeeded) {
    if (!barrier_end_) barrier_end_ = now_ + settings_.exit_barrier_timeout;
    return;
  }
  if (!ended.not_started.empty() && not_started_.empty()) not_started_ = ended.not_started;
  failures_.add_flights(ended.flights);
  const bool has_failed = !ended.failures.empty() || !ended.not_started.empty();
  if (has_failed) failures_.add(id, ended.failures, now_);
  if (phase_ != Phase::running) return;
  stop_round(ended.failures.empty() ? member.join.name + " has stopped its workers"
                                    : ended.failures.front().description);
}

void Coordination::hear(NodeId id, const Leave& leave) {
  const auto found = members_.find(id);
  if (found == members_.end() || std::exchange(found->second.is_leaving, true)) return;
  const Member& member = found->second;
  if (member.join.is_host) {
    interrupting_signal_ = leave.signal;
    interruption_ = member.join.name + ", which hosts the rendezvous, " + leave.reason;
    if (phase_ == Phase::running) stop_round(interruption_, Manner::orderly);
    if (phase_ == Phase::gathering) finish(Verdict::Result::interrupted, interruption_);
    return;
  }
  // Only a node with workers in the round is missed by the others.
  if (member.workers == Workers::running || member.workers == Workers::ended) {
    change_of_membership(member.join.name + " has left: it " + leave.reason, now_, Manner::orderly);
  }
}

void Coordination::lose(NodeId id, const std::string& reason) {
  const auto found = members_.find(id);
  if (found == members_.end()) return;
  const Member member = std::move(found->second);
  members_.erase(found);
  const bool is_missed = member.workers == Workers::running ||
                         (member.workers == Workers::ended && !member.is_leaving);
  if (is_missed)
    change_of_membership(member.join.name + " is lost: " + reason,
                         std::min(now_, member.lease_end));
}

void Coordination::let_go(const HostLeaves& leaves) {
  is_host_leaving_ = true;
  change_of_membership(leaves.reason, now_, Manner::orderly);
}

void Coordination::check_time() {
  std::vector<NodeId> silent;
  for (const auto& [id, member] : members_) {
    if (member.lease_end <= now_) silent.push_back(id);
  }
  for (const NodeId id : silent) {
    actions_.emplace_back(HangUp{id});
    lose(id, "it was silent for " + seconds_text(settings_.lease));
  }
  if (phase_ == Phase::running && barrier_end_ && *barrier_end_ <= now_) release_successful();
  if (phase_ == Phase::gathering && !not_before_ && next_notice_ <= now_) notify_waiting();
  if (phase_ == Phase::finished && farewell_end_ && *farewell_end_ <= now_) {
    for (const auto& [id, member] : members_) actions_.emplace_back(HangUp{id});
    members_.clear();
  }
}

void Coordination::consider() {
  if (phase_ == Phase::running) consider_success();
  if (phase_ == Phase::stopping) consider_next();
  if (phase_ == Phase::gathering) consider_round();
}

void Coordination::consider_round() {
  if (not_before_ && now_ < *not_before_) return;
  not_before_.reset();
  if (is_host_leaving_) return;
  const int count = present();
  if (count < settings_.nodes_min) {
    last_call_end_.reset();
    if (gather_end_ <= now_)
      finish(Verdict::Result::no_quorum,
             waiting_text() + " for " + seconds_text(settings_.join_timeout));
    return;
  }
  if (succession_.not_before(now_)) return;
  // Later rounds are made of those who are there: nobody else is expected.
  const bool is_first = last_names_.empty();
  if (count < settings_.nodes_max && is_first) {
    if (!last_call_end_) last_call_end_ = now_ + settings_.last_call_timeout;
    if (now_ < *last_call_end_) return;
  }
  form_round();
}

void Coordination::form_round() {
  std::vector<NodeId> ids;
  std::vector<OrderedNode> nodes;
  for (const auto& [id, member] : members_) {
    if (member.is_leaving) continue;
    ids.push_back(id);
    nodes.push_back({.wanted_rank = member.join.node_rank,
                     .previous_rank = member.node_rank,
                     .name = member.join.name});
  }
  for (auto& [id, member] : members_) member.node_rank = -1;
  highest_round_ = round_ = std::max(round_, highest_round_) + 1;
  RoundFormed formed{
      .round = round_, .restarts_used = history_.restarts, .store_port = settings_.store_port};
  std::vector<NodeId> by_rank;
  const auto nodes_max = std::min(static_cast<std::size_t>(settings_.nodes_max), kRoundNodesMax);
  for (const auto i : order_nodes(nodes, nodes_max)) {
    const NodeId id = ids[i];
    Member& member = members_.at(id);
    member.workers = Workers::running;
    member.node_rank = static_cast<int>(by_rank.size());
    by_rank.push_back(id);
    formed.nodes.push_back({.name = member.join.name,
                            .role = member.join.role,
                            .local_world_size = member.join.local_world_size});
  }
  ++rounds_formed_;
  phase_ = Phase::running;
  last_call_end_.reset();
  barrier_end_.reset();
  failures_ = {};
  next_reason_.clear();
  succession_ = {};
  is_membership_change_ = false;
  last_names_.clear();
  for (const auto& node : formed.nodes) last_names_.push_back(node.name);
  actions_.emplace_back(KeepRecord{record()});
  actions_.emplace_back(ClearStore{});
  for (formed.node_rank = 0; const NodeId id : by_rank) {
    tell(id, formed);
    ++formed.node_rank;
  }
}

/// What goes wrong while a round ends in an orderly way ends the order.
void Coordination::stop_round(const std::string& reason, Manner manner) {
  const bool is_worse = manner_ == Manner::orderly && manner == Manner::urgent;
  if (phase_ != Phase::running && !(phase_ == Phase::stopping && is_worse)) return;
  manner_ = manner;
  phase_ = Phase::stopping;
  for (const auto& [id, member] : members_) {
    if (member.workers == Workers::running)
      tell(id, StopWorkers{round_, reason, manner == Manner::orderly});
  }
}

/// Costs no restart. It also explains failures of workers shortly before: peers of a vanished one
/// fail at once, and its node is noticed missing up to two leases later, if heartbeats from before
/// are held up in the network and arrive just in time to renew its lease.
void Coordination::change_of_membership(const std::string& reason, Time when, Manner manner) {
  if (phase_ == Phase::gathering || phase_ == Phase::finished) return;
  const auto& failed = failures_.first_time();
  const bool explains = !failed || when - *failed <= 2 * settings_.lease;
  is_membership_change_ = is_membership_change_ || explains;
  if (explains) next_reason_ = reason;
  stop_round(reason, manner);
}

void Coordination::consider_success() {
  if (taking_part(Workers::running) > 0 || taking_part(Workers::ended) > 0) return;
  finish(Verdict::Result::succeeded, "all workers succeeded");
}

void Coordination::consider_next() {
  if (taking_part(Workers::running) > 0) return;
  if (!interruption_.empty()) return finish(Verdict::Result::interrupted, interruption_);
  if (!not_started_.empty()) return finish(Verdict::Result::not_started, not_started_);
  if (!is_membership_change_) {
    const auto decision =
        spend_restart(history_, failures_.cause(), failures_.ran(), now_, settings_.restarts);
    history_ = decision.history;
    if (!decision.may_restart) return finish(Verdict::Result::failed, decision.reason);
    next_reason_ = decision.reason;
    actions_.emplace_back(KeepRecord{record()});
    if (decision.delay.count() > 0) not_before_ = now_ + decision.delay;
  }
  gather();
}

void Coordination::gather() {
  phase_ = Phase::gathering;
  gather_end_ = now_ + settings_.join_timeout;
  next_notice_ = now_ + settings_.waiting_notice;
  barrier_end_.reset();
  for (auto& [id, member] : members_) {
    member.workers = Workers::none;
    if (!member.is_leaving) tell(id, Waiting{"another round follows: " + next_reason_});
  }
}

/// Those that have waited long enough for the others may go: their work is done.
void Coordination::release_successful() {
  barrier_end_.reset();
  Verdict verdict{.rounds = rounds_formed_,
                  .reason = "the workers of this node succeeded; others have not ended after " +
                            seconds_text(settings_.exit_barrier_timeout)};
  std::vector<NodeId> released;
  for (const auto& [id, member] : members_) {
    if (member.workers == Workers::succeeded && !member.join.is_host) released.push_back(id);
  }
  for (const NodeId id : released) {
    tell(id, Finish{verdict});
    actions_.emplace_back(HangUp{id});
    members_.erase(id);
  }
}

void Coordination::finish(Verdict::Result result, const std::string& reason) {
  phase_ = Phase::finished;
  verdict_ = Verdict{.result = result, .rounds = rounds_formed_, .reason = reason};
  if (result == Verdict::Result::interrupted) verdict_->signal = interrupting_signal_;
  if (result != Verdict::Result::succeeded) failures_.tell(*verdict_);
  actions_.emplace_back(KeepRecord{record(), verdict_});
  farewell_end_ = now_ + settings_.farewell_timeout;
  for (const auto& [id, member] : members_) tell(id, Finish{*verdict_});
}

// What is said.

void Coordination::tell(NodeId id, CoordinatorMessage message) {
  actions_.emplace_back(Tell{id, std::move(message)});
}

int Coordination::present() const {
  return static_cast<int>(std::count_if(members_.begin(), members_.end(), [](const auto& entry) {
    return !entry.second.is_leaving;
  }));
}

int Coordination::taking_part(Workers workers) const {
  return static_cast<int>(std::count_if(members_.begin(), members_.end(), [&](const auto& entry) {
    return entry.second.workers == workers;
  }));
}

void Coordination::notify_waiting() {
  next_notice_ = now_ + settings_.waiting_notice;
  for (const auto& [id, member] : members_) tell(id, Waiting{waiting_text()});
}

std::string Coordination::waiting_text() const {
  std::vector<std::string> names;
  for (const auto& [id, member] : members_) {
    if (!member.is_leaving) names.push_back(member.join.name);
  }
  return describe_waiting(std::move(names), last_names_, settings_.nodes_min);
}

}  // namespace ddprun::membership
