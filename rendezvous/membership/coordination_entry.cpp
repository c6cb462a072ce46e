// Joining: admission, duplicate agents, nodes that are held back.
#include "rendezvous/base/text.hpp"
#include "rendezvous/membership/command.hpp"
#include "rendezvous/membership/coordination.hpp"

#include <algorithm>

namespace ddprun::membership {

namespace {

constexpr const char* kNamesake = "another agent of that name";

std::string taken_rank(const Join& join, const std::string& holder) {
  return "--node_rank=" + std::to_string(join.node_rank) + " is that of " + holder;
}

}  // namespace

void Coordination::on_message(NodeId id, const Join& join) {
  if (roster_.find(id) != nullptr || duplicates_.contains(id)) return;  // already joined
  if (const auto reason = objection_to(join, settings_); !reason.empty()) {
    return refuse(id, join, reason);
  }
  // The old connection is lost, possibly not yet reported; or this is the old one.
  if (const auto former = roster_.former_of(join)) {
    if (join.connection < roster_.find(*former)->join.connection) {
      actions_.emplace_back(CloseConnection{id});
      return;
    }
    actions_.emplace_back(CloseConnection{*former});
    lose(*former, "it has come back over another connection");
  }
  admit(id, join);
}

void Coordination::admit(NodeId id, const Join& join) {
  if (phase_ == Phase::finished) {
    return refuse(id, join, "the run has ended: " + outcome_->reason);
  }
  if (const auto holder = roster_.holder_of_rank(join)) {
    return contend(id, join, *holder);
  }
  // After a coordinator restart, the nodes know the run's progress better than the coordinator.
  highest_round_ = std::max(highest_round_, join.last_round);
  history_.restarts = std::max(history_.restarts, join.restarts_used);
  update_age(join);
  const auto hold_back =
      join.is_host ? std::chrono::milliseconds(0) : flapping_.hold_back(join.name);
  const bool is_held_back = hold_back.count() > 0;
  auto warning = compare_address(join);
  const auto difference = compare_command(join);
  if (!warning.empty() && !difference.empty()) warning += "; ";
  warning += difference;
  roster_.add(id,
              {.join = join,
               .lease_end = lease_end(),
               .node_rank = failover_.claim(join.name, join.instance),
               .next_notice = first_notice(now_),
               .came = now_,
               .held_back_until = is_held_back ? std::optional(now_ + hold_back) : std::nullopt});
  send(id, Welcome{settings_.lease, warning, settings_.run_nonce});
  if (phase_ != Phase::running) return;
  if (is_held_back) {
    send(id, Waiting{hold_back_reason(join)});
  } else if (has_room_for_others()) {
    // New nodes take part in the next probe.
    if (!reach_.is_running() && !begin_probe())
      change(MembershipChange::Kind::comes, join.name + " has joined", now_);
  } else {
    send(id, Waiting{"the round has " + counted_nodes(static_cast<int>(last_nodes_.size())) +
                     " of at most " + std::to_string(settings_.nodes_max) +
                     "; this one waits to take the place of another"});
  }
}

/// Agents on one machine may use its address as a name. If only one of the two connects from that
/// address, they are on different machines.
std::string Coordination::compare_address(const Join& join) const {
  const auto& own = join.probe.host;
  for (const auto& [id, member] : roster_.all()) {
    const auto& other = member.join.probe.host;
    const bool has_one_owner = (own == join.name) != (other == join.name);
    const bool have_one_family = !own.empty() && !other.empty() &&
                                 (own.find(':') == own.npos) == (other.find(':') == other.npos);
    if (member.join.name != join.name || !has_one_owner || !have_one_family) continue;
    return "the nodes that connect from " + other + " and " + own + " are both named " + join.name +
           "; give each its own address (--local_addr)";
  }
  return {};
}

/// Compares with the command of the first node. Commands may differ on purpose, so this is only a
/// warning.
std::string Coordination::compare_command(const Join& join) {
  if (join.command.empty() || join.command == first_command_) return {};
  if (!first_command_.empty())
    return describe_difference(join.name, join.command, first_node_, first_command_);
  first_node_ = join.name;
  first_command_ = join.command;
  return {};
}

/// A round in which some nodes have succeeded is nearly over; do not restart it for a new node.
bool Coordination::has_room_for_others() const {
  const bool has_room = static_cast<int>(last_nodes_.size()) < settings_.nodes_max;
  return has_room && roster_.count(Workers::succeeded) == 0;
}

std::string Coordination::hold_back_reason(const Join& join) const {
  return "this node has come and gone, or was left out because of a cut, " +
         std::to_string(flapping_.count(join.name)) + " times in a row, each time within " +
         seconds_text(kLongStay) + "; the other nodes continue without it for up to " +
         seconds_text(flapping_.hold_back(join.name)) + " before it may disturb them again";
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

/// The record does not contain the time without a coordinator; its ages are older by that.
void Coordination::update_age(const Join& join) {
  const auto missed = join.since_round - (now_ - round_formed_);
  if (!is_of_former_ || join.last_round != round_ || missed.count() <= 0) return;
  round_formed_ -= missed;
  for (auto& when : history_.recent) when -= missed;
}

void Coordination::contend(NodeId id, const Join& join, NodeId holder) {
  const Member& other = *roster_.find(holder);
  std::string why;
  if (other.is_leaving) {
    why = taken_rank(join, other.join.name + ", which leaves; this one waits until it has gone");
  } else if (other.join.name == join.name) {
    why = taken_rank(
        join, std::string(kNamesake) + "; this one waits until it is known whether that lives");
  } else {
    return refuse(id, join, taken_rank(join, other.join.name + " already"));
  }
  duplicates_.add(id, join, holder, why, now_);
  send(id, Waiting{why});
}

void Coordination::refuse(NodeId id, const Join& join, const std::string& reason) {
  send(id, Refused{reason, config_to_show(join, settings_)});
  actions_.emplace_back(CloseConnection{id});
}

void Coordination::resolve_duplicates() {
  const auto settled = duplicates_.resolve(roster_, settings_.lease, now_);
  for (const auto& [id, join] : settled.refused) {
    refuse(id, join,
           taken_rank(join, std::string(kNamesake) +
                                ", which is alive: has ddprun been started twice there?"));
  }
  for (const auto& [id, join] : settled.free) admit(id, join);
  // An agent counts its lease from its request, so this one must join again.
  for (const auto& [id, join] : settled.late) {
    if (phase_ == Phase::finished) {
      admit(id, join);
    } else {
      actions_.emplace_back(CloseConnection{id});
    }
  }
}

}  // namespace ddprun::membership
