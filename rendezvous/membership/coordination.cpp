#include "rendezvous/membership/coordination.hpp"

#include "rendezvous/base/text.hpp"
#include "rendezvous/membership/bounds.hpp"
#include "rendezvous/membership/earliest.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::membership {

namespace {

std::string taken_rank(const Join& join, const std::string& holder) {
  return "--node_rank=" + std::to_string(join.node_rank) + " is that of " + holder;
}

}  // namespace

Coordination::Coordination(Settings settings, Time now)
    : settings_(std::move(settings)),
      now_(now),
      gather_end_(now + settings_.join_timeout),
      next_notice_(now + settings_.waiting_notice) {}

Coordination::Coordination(Settings settings, const RunRecord& record, Time now)
    : Coordination(std::move(settings), now) {
  round_ = highest_round_ = record.round;
  rounds_formed_ = record.rounds_formed;
  last_nodes_ = record.nodes;
  history_ = history_of(record, now);
  succession_ = Succession(record, now + settings_.lease);
}

RunRecord Coordination::record() const {
  auto record = record_of(settings_, history_, now_);
  record.round = round_;
  record.rounds_formed = rounds_formed_;
  record.nodes = last_nodes_;
  return record;
}

bool Coordination::is_over() const {
  if (is_host_leaving_ && phase_ == Phase::gathering) return true;
  return phase_ == Phase::finished && roster_.all().empty();
}

std::vector<CoordinatorAction> Coordination::apply(const CoordinatorEvent& event, Time now) {
  now_ = now;
  actions_.clear();
  if (const auto* says = std::get_if<NodeSays>(&event)) {
    if (auto* member = roster_.find(says->node)) member->lease_end = now_ + settings_.lease;
    std::visit([&](const auto& message) { hear(says->node, message); },
               within_bounds(says->message));
  } else if (const auto* gone = std::get_if<NodeGone>(&event)) {
    contenders_.remove(gone->node);
    lose(gone->node, gone->reason);
  } else if (const auto* leaves = std::get_if<HostLeaves>(&event)) {
    let_go(*leaves);
  }
  check_time();
  settle_contenders();
  consider();
  return std::exchange(actions_, {});
}

std::optional<Time> Coordination::next_wake() const {
  if (is_over()) return std::nullopt;
  const auto lease_end = roster_.first_lease_end();
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

void Coordination::hear(NodeId id, const Join& join) {
  if (roster_.find(id) != nullptr || contenders_.contains(id)) return;  // a connection joins once
  if (const auto reason = objection_to(join, settings_); !reason.empty()) {
    return refuse(id, join, reason);
  }
  // Its connection is lost, and it may be here before the news of that; or this is the lost one.
  if (const auto former = roster_.former_of(join)) {
    if (join.connection < roster_.find(*former)->join.connection) {
      actions_.emplace_back(HangUp{id});
      return;
    }
    actions_.emplace_back(HangUp{*former});
    lose(*former, "it has come back over another connection");
  }
  admit(id, join);
}

void Coordination::admit(NodeId id, const Join& join) {
  if (phase_ == Phase::finished) {
    return refuse(id, join, "the run has ended: " + verdict_->reason);
  }
  if (const auto holder = roster_.holder_of_rank(join)) {
    if (roster_.find(*holder)->join.name == join.name) {
      return contenders_.add(id, join, *holder, now_);
    }
    return refuse(id, join, taken_rank(join, roster_.find(*holder)->join.name + " already"));
  }
  // After a restart of the coordinator the nodes know better than it how far the run had come.
  highest_round_ = std::max(highest_round_, join.last_round);
  history_.restarts = std::max(history_.restarts, join.restarts_used);
  roster_.add(id, {.join = join,
                   .lease_end = now_ + settings_.lease,
                   .node_rank = succession_.claim(join.name, join.instance)});
  tell(id, Welcome{settings_.lease});
  if (phase_ != Phase::running) return;
  // A round of which some have succeeded is nearly over: it is not begun anew for a newcomer.
  const bool has_room = static_cast<int>(last_nodes_.size()) < settings_.nodes_max;
  if (has_room && roster_.count(Workers::succeeded) == 0) {
    change(MembershipChange::Kind::comes, join.name + " has joined", now_);
  } else {
    tell(id, Waiting{"the round has " + counted_nodes(static_cast<int>(last_nodes_.size())) +
                     " of at most " + std::to_string(settings_.nodes_max) +
                     "; this one waits to take the place of another"});
  }
}

void Coordination::refuse(NodeId id, const Join& join, const std::string& reason) {
  tell(id, Refused{reason, config_to_show(join, settings_)});
  actions_.emplace_back(HangUp{id});
}

void Coordination::settle_contenders() {
  const auto settled = contenders_.settle(roster_, settings_.lease);
  for (const auto& [id, join] : settled.refused) {
    refuse(id, join,
           taken_rank(join,
                      "another agent of that name, which is alive: has ddprun been "
                      "started twice there?"));
  }
  for (const auto& [id, join] : settled.free) admit(id, join);
}

void Coordination::hear(NodeId id, const Heartbeat& heartbeat) {
  if (roster_.find(id) != nullptr) tell(id, HeartbeatAnswer{heartbeat.number});
}

void Coordination::hear(NodeId id, const WorkersFailing& failing) {
  if (roster_.find(id) == nullptr || failing.round != round_) return;
  if (phase_ != Phase::running && phase_ != Phase::stopping) return;
  end_.note(id, failing, now_);
  stop_round(failing.reason);
}

void Coordination::hear(NodeId id, const WorkersEnded& ended) {
  Member* member = roster_.find(id);
  if (member == nullptr || ended.round != round_ || member->workers != Workers::running) return;
  member->workers = ended.have_succeeded ? Workers::succeeded : Workers::ended;
  if (ended.have_succeeded) {
    if (!barrier_end_) barrier_end_ = now_ + settings_.exit_barrier_timeout;
    return;
  }
  end_.note(id, ended, now_);
  if (phase_ != Phase::running) return;
  stop_round(ended.failures.empty() ? member->join.name + " has stopped its workers"
                                    : ended.failures.front().description);
}

void Coordination::hear(NodeId id, const Leave& leave) {
  Member* member = roster_.find(id);
  if (member == nullptr || std::exchange(member->is_leaving, true)) return;
  if (member->join.is_host) {
    interrupting_signal_ = leave.signal;
    interruption_ = member->join.name + ", which hosts the rendezvous, " + leave.reason;
    if (phase_ == Phase::running) stop_round(interruption_, Manner::orderly);
    if (phase_ == Phase::gathering) finish(Verdict::Result::interrupted, interruption_);
    return;
  }
  // Only a node with workers in the round is missed by the others.
  if (member->workers == Workers::running || member->workers == Workers::ended) {
    change(MembershipChange::Kind::leaves, member->join.name + " has left: it " + leave.reason,
           now_);
  }
}

void Coordination::lose(NodeId id, const std::string& reason) {
  const auto member = roster_.remove(id);
  if (!member) return;
  const bool is_missed = member->workers == Workers::running ||
                         (member->workers == Workers::ended && !member->is_leaving);
  if (is_missed) {
    change(MembershipChange::Kind::is_lost, member->join.name + " is lost: " + reason,
           std::min(now_, member->lease_end));
  }
}

void Coordination::let_go(const HostLeaves& leaves) {
  is_host_leaving_ = true;
  change(MembershipChange::Kind::leaves, leaves.reason, now_);
}

void Coordination::check_time() {
  for (const NodeId id : roster_.silent(now_)) {
    actions_.emplace_back(HangUp{id});
    lose(id, "it was silent for " + seconds_text(settings_.lease));
  }
  if (phase_ == Phase::running && barrier_end_ && *barrier_end_ <= now_) release_successful();
  if (phase_ == Phase::gathering && !not_before_ && next_notice_ <= now_) notify_waiting();
  if (phase_ == Phase::finished && farewell_end_ && *farewell_end_ <= now_) {
    for (const auto& [id, member] : roster_.all()) actions_.emplace_back(HangUp{id});
    roster_.clear();
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
  const int count = roster_.present();
  if (count < settings_.nodes_min) {
    last_call_end_.reset();
    if (gather_end_ <= now_)
      finish(Verdict::Result::no_quorum,
             waiting_text() + " for " + seconds_text(settings_.join_timeout));
    return;
  }
  if (succession_.not_before(now_)) return;
  // Later rounds are made of those who are there: nobody else is expected.
  const bool is_first = last_nodes_.empty();
  if (count < settings_.nodes_max && is_first) {
    if (!last_call_end_) last_call_end_ = now_ + settings_.last_call_timeout;
    if (now_ < *last_call_end_) return;
  }
  form_round();
}

void Coordination::form_round() {
  highest_round_ = round_ = std::max(round_, highest_round_) + 1;
  RoundFormed formed{
      .round = round_, .restarts_used = history_.restarts, .store_port = settings_.store_port};
  const auto by_rank =
      roster_.form_round(std::min(static_cast<std::size_t>(settings_.nodes_max), kRoundNodesMax));
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
  succession_ = {};
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
  for (const auto& [id, member] : roster_.all()) {
    if (member.workers == Workers::running)
      tell(id, StopWorkers{round_, reason, manner == Manner::orderly});
  }
}

/// Peers of a node that vanishes fail at once, and it is noticed missing up to two leases later, if
/// heartbeats from before are held up in the network and arrive just in time to renew its lease.
void Coordination::change(MembershipChange::Kind kind, const std::string& reason, Time when) {
  if (phase_ == Phase::gathering || phase_ == Phase::finished) return;
  const MembershipChange change{.kind = kind, .reason = reason, .when = when};
  end_.note(change, 2 * settings_.lease);
  stop_round(reason, change.manner());
}

void Coordination::consider_success() {
  if (roster_.count(Workers::running) > 0 || roster_.count(Workers::ended) > 0) return;
  finish(Verdict::Result::succeeded, "all workers succeeded");
}

void Coordination::consider_next() {
  if (roster_.count(Workers::running) > 0) return;
  if (!interruption_.empty()) return finish(Verdict::Result::interrupted, interruption_);
  const auto sequel = end_.sequel(history_, settings_.restarts, now_);
  if (sequel.spent) history_ = sequel.spent->history;
  if (sequel.end) return finish(*sequel.end, sequel.reason);
  if (sequel.spent) {
    actions_.emplace_back(KeepRecord{record()});
    if (sequel.spent->delay.count() > 0) not_before_ = now_ + sequel.spent->delay;
  }
  gather(sequel.reason);
}

void Coordination::gather(const std::string& reason) {
  phase_ = Phase::gathering;
  gather_end_ = now_ + settings_.join_timeout;
  next_notice_ = now_ + settings_.waiting_notice;
  barrier_end_.reset();
  roster_.end_round();
  for (const auto& [id, member] : roster_.all()) {
    if (!member.is_leaving) tell(id, Waiting{"another round follows: " + reason});
  }
}

/// Those that have waited long enough for the others may go: their work is done.
void Coordination::release_successful() {
  barrier_end_.reset();
  Verdict verdict{.rounds = rounds_formed_,
                  .reason = "the workers of this node succeeded; others have not ended after " +
                            seconds_text(settings_.exit_barrier_timeout)};
  std::vector<NodeId> released;
  for (const auto& [id, member] : roster_.all()) {
    if (member.workers == Workers::succeeded && !member.join.is_host) released.push_back(id);
  }
  for (const NodeId id : released) {
    tell(id, Finish{verdict});
    actions_.emplace_back(HangUp{id});
    roster_.remove(id);
  }
}

void Coordination::finish(Verdict::Result result, const std::string& reason) {
  phase_ = Phase::finished;
  verdict_ = Verdict{.result = result, .rounds = rounds_formed_, .reason = reason};
  if (result == Verdict::Result::interrupted) verdict_->signal = interrupting_signal_;
  if (result != Verdict::Result::succeeded) end_.tell(*verdict_);
  actions_.emplace_back(KeepRecord{record(), verdict_});
  farewell_end_ = now_ + settings_.farewell_timeout;
  for (const auto& [id, member] : roster_.all()) tell(id, Finish{*verdict_});
}

// What is said.

void Coordination::tell(NodeId id, CoordinatorMessage message) {
  actions_.emplace_back(Tell{id, std::move(message)});
}

void Coordination::notify_waiting() {
  next_notice_ = now_ + settings_.waiting_notice;
  for (const auto& [id, member] : roster_.all()) tell(id, Waiting{waiting_text()});
}

std::string Coordination::waiting_text() const {
  std::vector<std::string> last_round;
  for (const auto& node : last_nodes_) last_round.push_back(node.name);
  return describe_waiting(roster_.present_names(), std::move(last_round), settings_);
}

}  // namespace ddprun::membership
