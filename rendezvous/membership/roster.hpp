// The nodes that have joined a run and are still connected: what each has said of itself, how long
// it counts as there, and what its workers of the latest round are doing. A value; it decides
// nothing but who takes part in a round, in which order.
#pragma once

#include "rendezvous/membership/messages.hpp"
#include "rendezvous/membership/settings.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::membership {

/// A connection: a node that comes back has another one.
using NodeId = std::uint64_t;

class Roster {
 public:
  enum class Workers : std::uint8_t { none, running, ended, succeeded };

  struct Member {
    Join join;
    Time lease_end;
    Workers workers = Workers::none;
    bool is_leaving = false;
    int node_rank = -1;  ///< in the latest round
    Time next_notice{};  ///< when it hears for what it waits, while there is no round
    Time came{};         ///< when it joined, or when a round was last formed without it for a cut
    std::optional<Time> held_back_until{};  ///< not in rounds that the others can have without it
  };

  void add(NodeId id, Member member) { members_.emplace(id, std::move(member)); }

  /// Null: there is no such node.
  Member* find(NodeId id);
  const Member* find(NodeId id) const;

  std::optional<Member> remove(NodeId id);
  void clear() { members_.clear(); }

  /// In order of joining.
  const std::map<NodeId, Member>& all() const { return members_; }

  /// Those that would take part in a next round.
  int present() const;
  std::vector<std::string> present_names() const;

  int count(Workers workers) const;

  /// The name of a node that is or was in the latest round, with its rank there if another node
  /// has the same name: two agents of one machine.
  std::string distinct_name(const Member& member) const;

  /// The one over whose former connection this agent comes back; nothing: it is new.
  std::optional<NodeId> former_of(const Join& join) const;

  /// Who has the rank that this node wants; nothing: nobody, or it wants none.
  std::optional<NodeId> holder_of_rank(const Join& join) const;

  /// Those whose leases have ended.
  std::vector<NodeId> silent(Time now) const;
  std::optional<Time> first_lease_end() const;

  /// Nothing: there are no nodes.
  std::optional<Time> first_notice() const;

  /// Schedules the next notice of all nodes.
  void notify_at(Time time);

  /// Those that have to hear now, and next at that time.
  std::vector<NodeId> take_notices(Time now, Time next);

  /// Ends what has passed of holding back; if nodes are still held back, but too few others are
  /// there, it is over for all.
  void end_holding_back(Time now, int nodes_min);

  /// The present ones that are held back.
  std::vector<NodeId> held_back() const;
  std::optional<Time> next_backoff_expiry() const;

  /// The present ones that are not held back, in the order of the ranks that they would have in a
  /// round of all of them.
  std::vector<NodeId> candidates() const;

  /// Gives at most `nodes_max` of these nodes their ranks in a new round, and workers; returns them
  /// by node rank. The others are spares.
  std::vector<NodeId> form_round(const std::vector<NodeId>& nodes, std::size_t nodes_max);

  /// The workers of the round have ended on all nodes, which hear at that time for what they wait.
  void end_round(Time first_notice);

 private:
  std::vector<NodeId> by_rank(const std::vector<NodeId>& nodes, std::size_t nodes_max) const;

  std::map<NodeId, Member> members_;
};

}  // namespace ddprun::membership
