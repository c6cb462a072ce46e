#include "rendezvous/membership/duplicate_agents.hpp"

namespace ddprun::membership {

namespace {

std::string namesake(const Join& join) {
  return "another agent named " + join.name;
}

std::string taken_rank(const Join& join, const std::string& holder) {
  return "--node_rank=" + std::to_string(join.node_rank) + " is taken by " + holder;
}

}  // namespace

std::optional<DuplicateAgents::Claim> DuplicateAgents::claim(NodeId id, const Join& join,
                                                             const Roster& roster, Time now) {
  const auto holder = roster.holder_of_rank(join);
  if (!holder) return std::nullopt;
  const auto& other = *roster.find(*holder);
  std::string reason;
  if (other.is_leaving) {
    reason = taken_rank(join, other.join.name + ", which is leaving; waiting until it has left");
  } else if (other.join.name == join.name) {
    reason = taken_rank(join, namesake(join) + "; waiting to see whether that agent is alive");
  } else {
    return Claim{.reason = taken_rank(join, other.join.name)};
  }
  if (waiting_.empty()) next_notice_ = now + pause_;
  waiting_.insert_or_assign(id, Duplicate{join, *holder, now, reason});
  return Claim{.must_wait = true, .reason = std::move(reason)};
}

std::vector<std::pair<NodeId, std::string>> DuplicateAgents::take_due_notices(Time now) {
  std::vector<std::pair<NodeId, std::string>> notices;
  if (waiting_.empty() || now < next_notice_) return notices;
  next_notice_ = now + pause_;
  for (const auto& [id, contender] : waiting_) notices.emplace_back(id, contender.why);
  return notices;
}

DuplicateAgents::ContentionResult DuplicateAgents::resolve(const Roster& roster,
                                                           std::chrono::milliseconds lease,
                                                           Time now) {
  ContentionResult result;
  for (auto each = waiting_.begin(); each != waiting_.end();) {
    const auto* former = roster.find(each->second.former);
    const bool is_former_alive = former != nullptr && !former->is_leaving &&
                                 is_alive(each->second, former->lease_end - lease, lease);
    if (former != nullptr && !is_former_alive) {
      ++each;
      continue;
    }
    const bool is_late = now - each->second.since >= lease / kHeartbeatsPerLease;
    auto& into = is_former_alive ? result.refused : is_late ? result.late : result.free;
    into.emplace_back(each->first, std::move(each->second.join));
    each = waiting_.erase(each);
  }
  return result;
}

std::string DuplicateAgents::refusal(const Join& join) {
  return taken_rank(join, namesake(join) + ", which is alive; give each node its own --node_rank");
}

/// Heartbeats that the network delayed arrive together.
bool DuplicateAgents::is_alive(Duplicate& contender, Time last_heartbeat,
                               std::chrono::milliseconds lease) {
  constexpr int kLeaseParts = 3;
  if (last_heartbeat <= contender.since) return false;
  if (!contender.first_heartbeat) contender.first_heartbeat = last_heartbeat;
  return last_heartbeat >= *contender.first_heartbeat + lease / kLeaseParts;
}

}  // namespace ddprun::membership
