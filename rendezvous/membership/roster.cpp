#include "rendezvous/membership/roster.hpp"

#include "rendezvous/membership/earliest.hpp"
#include "rendezvous/membership/node_order.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

namespace ddprun::membership {

Roster::Member* Roster::find(NodeId id) {
  const auto found = members_.find(id);
  return found == members_.end() ? nullptr : &found->second;
}

const Roster::Member* Roster::find(NodeId id) const {
  const auto found = members_.find(id);
  return found == members_.end() ? nullptr : &found->second;
}

std::optional<Roster::Member> Roster::remove(NodeId id) {
  note(id, {}, {});
  auto node = members_.extract(id);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

void Roster::clear() {
  members_.clear();
  waits_.clear();
  ranks_by_share_ = {};
}

int Roster::present() const {
  return static_cast<int>(std::count_if(members_.begin(), members_.end(), [](const auto& entry) {
    return !entry.second.is_leaving;
  }));
}

std::vector<std::string> Roster::present_names() const {
  std::vector<std::string> names;
  for (const auto& [id, member] : members_) {
    if (!member.is_leaving) names.push_back(member.join.name);
  }
  return names;
}

std::string Roster::distinct_name(const Member& member) const {
  const auto& join = member.join;
  const bool has_namesake = std::any_of(members_.begin(), members_.end(), [&](const auto& entry) {
    const auto& other = entry.second.join;
    return other.name == join.name && other.instance != join.instance;
  });
  if (!has_namesake || member.node_rank < 0) return join.name;
  return join.name + " (node rank " + std::to_string(member.node_rank) + ")";
}

std::vector<NodeId> Roster::with_workers() const {
  std::vector<NodeId> nodes;
  for (const auto& [id, member] : members_) {
    if (member.workers != Workers::none) nodes.push_back(id);
  }
  return nodes;
}

NodePlace Roster::place_of(NodeId id) const {
  const Join& join = members_.at(id).join;
  return {.name = join.name,
          .role = join.role,
          .local_world_size = join.local_world_size,
          .address = join.probe.host,
          .is_host = join.is_host};
}

int Roster::count(Workers workers) const {
  return static_cast<int>(std::count_if(members_.begin(), members_.end(), [&](const auto& entry) {
    return entry.second.workers == workers;
  }));
}

std::optional<NodeId> Roster::former_of(const Join& join) const {
  for (const auto& [id, member] : members_) {
    if (member.join.instance == join.instance && member.join.name == join.name) return id;
  }
  return std::nullopt;
}

std::optional<NodeId> Roster::holder_of_rank(const Join& join) const {
  if (join.node_rank < 0) return std::nullopt;
  for (const auto& [id, member] : members_) {
    if (member.join.node_rank == join.node_rank) return id;
  }
  return std::nullopt;
}

std::vector<NodeId> Roster::silent(Time now) const {
  std::vector<NodeId> ids;
  for (const auto& [id, member] : members_) {
    if (member.lease_end <= now) ids.push_back(id);
  }
  return ids;
}

std::optional<Time> Roster::first_lease_end() const {
  std::optional<Time> first;
  for (const auto& [id, member] : members_) first = earliest({first, member.lease_end});
  return first;
}

std::optional<Time> Roster::first_notice() const {
  std::optional<Time> first;
  for (const auto& [id, member] : members_) first = earliest({first, member.next_notice});
  return first;
}

void Roster::notify_at(Time time) {
  for (auto& [id, member] : members_) member.next_notice = time;
}

std::vector<NodeId> Roster::take_notices(Time now, Time next) {
  std::vector<NodeId> ids;
  for (auto& [id, member] : members_) {
    if (member.next_notice > now) continue;
    member.next_notice = next;
    ids.push_back(id);
  }
  return ids;
}

void Roster::end_holding_back(Time now, int nodes_min) {
  for (auto& [id, member] : members_) {
    if (member.held_back_until && *member.held_back_until <= now) member.held_back_until.reset();
  }
  if (present() - static_cast<int>(held_back().size()) >= nodes_min) return;
  for (auto& [id, member] : members_) member.held_back_until.reset();
}

std::vector<NodeId> Roster::held_back() const {
  std::vector<NodeId> ids;
  for (const auto& [id, member] : members_) {
    if (!member.is_leaving && member.held_back_until) ids.push_back(id);
  }
  return ids;
}

std::optional<Time> Roster::next_backoff_expiry() const {
  std::optional<Time> first;
  for (const auto& [id, member] : members_) first = earliest({first, member.held_back_until});
  return first;
}

std::vector<NodeId> Roster::candidates() const {
  std::vector<NodeId> ids;
  for (const auto& [id, member] : members_) {
    if (!member.is_leaving && !member.held_back_until) ids.push_back(id);
  }
  return by_rank(ids, ids.size());
}

std::vector<NodeId> Roster::by_rank(const std::vector<NodeId>& nodes, std::size_t nodes_max) const {
  std::vector<OrderedNode> unordered;
  for (const NodeId id : nodes) {
    const Member& member = members_.at(id);
    unordered.push_back({.wanted_rank = member.join.node_rank,
                         .previous_rank = member.node_rank,
                         .name = member.join.name});
  }
  std::vector<NodeId> ordered;
  for (const auto i : order_nodes(unordered, nodes_max)) ordered.push_back(nodes[i]);
  return ordered;
}

std::vector<NodeId> Roster::form_round(const std::vector<NodeId>& nodes, std::size_t nodes_max) {
  auto ordered = by_rank(nodes, nodes_max);
  for (auto& [id, member] : members_) {
    member.node_rank = -1;
    note(id, {}, {});
  }
  for (int rank = 0; const NodeId id : ordered) {
    Member& member = members_.at(id);
    member.workers = Workers::running;
    member.node_rank = rank++;
  }
  return ordered;
}

void Roster::note(NodeId id, const RankActivity& activity, Time now) {
  Member* member = find(id);
  if (member == nullptr) return;
  const bool is_waiting = activity.wait.count() > 0;
  note_wait(*member, id, is_waiting ? std::optional(now - activity.wait) : std::nullopt);
  note_work_share(*member, activity.work_share);
  member->are_all_waiting = activity.are_all_waiting;
}

RankActivity Roster::activity_for(NodeId id, Time now) const {
  RankActivity activity{.work_share = median_work_share(),
                        .are_all_waiting = are_others_waiting(id)};
  const auto longest = std::find_if(waits_.begin(), waits_.end(),
                                    [id](const auto& wait) { return wait.second != id; });
  if (longest != waits_.end())
    activity.wait = std::chrono::floor<std::chrono::milliseconds>(now - longest->first);
  return activity;
}

bool Roster::are_others_waiting(NodeId id) const {
  return std::all_of(members_.begin(), members_.end(), [id](const auto& entry) {
    const auto& [other, member] = entry;
    return other == id || member.workers != Workers::running || member.are_all_waiting;
  });
}

void Roster::note_wait(Member& member, NodeId id, std::optional<Time> since) {
  if (member.waits_since) waits_.erase({*member.waits_since, id});
  member.waits_since = since;
  if (since) waits_.emplace(*since, id);
}

void Roster::note_work_share(Member& member, int share) {
  const auto add_ranks = [this, &member](int to, std::int64_t sign) {
    if (to < 0) return;
    ranks_by_share_.at(static_cast<std::size_t>(to)) += sign * member.join.local_world_size;
  };
  add_ranks(std::exchange(member.work_share, share), -1);
  add_ranks(share, 1);
}

int Roster::median_work_share() const {
  const auto known =
      std::accumulate(ranks_by_share_.begin(), ranks_by_share_.end(), std::int64_t{0});
  std::int64_t seen = 0;
  for (int share = 0; const auto ranks : ranks_by_share_) {
    seen += ranks;
    if (2 * seen >= known && known > 0) return share;
    ++share;
  }
  return -1;
}

void Roster::end_round(Time first_notice) {
  for (auto& [id, member] : members_) member.workers = Workers::none;
  notify_at(first_notice);
}

}  // namespace ddprun::membership
