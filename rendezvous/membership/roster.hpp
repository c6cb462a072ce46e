// The connected nodes of a run: their Join, lease, and the state of their workers. Value type;
// selects the nodes of a round and their order, and makes no other decisions.
#pragma once

#include "rendezvous/membership/messages.hpp"
#include "rendezvous/membership/settings.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::membership {

/// Identifies a connection; a node that rejoins gets a new id.
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
    Time next_notice{};  ///< when to send the next notice, while there is no round
    /// Start of the longest wait of its ranks in this round; nullopt: they do not wait.
    std::optional<Time> waits_since{};
    int work_share = -1;           ///< last RankActivity::work_share of this round
    bool are_all_waiting = false;  ///< last RankActivity::are_all_waiting of this round
    Time came{};                   ///< when it joined, or was last excluded from a round for a cut
    std::optional<Time> held_back_until{};  ///< excluded from rounds that are possible without it
  };

  void add(NodeId id, Member member) { members_.emplace(id, std::move(member)); }

  /// Returns null if there is no such node.
  Member* find(NodeId id);
  const Member* find(NodeId id) const;

  std::optional<Member> remove(NodeId id);
  void clear();

  /// In order of joining.
  const std::map<NodeId, Member>& all() const { return members_; }

  /// Nodes that would take part in the next round.
  int present() const;
  std::vector<std::string> present_names() const;

  int count(Workers workers) const;

  /// Returns the nodes of the latest round, including those whose workers have ended.
  std::vector<NodeId> with_workers() const;

  /// Returns the description of a node in a round.
  NodePlace place_of(NodeId id) const;

  /// Returns the name of a node of the latest round, with its rank if the name is not unique (two
  /// agents of one machine).
  std::string distinct_name(const Member& member) const;

  /// Returns the former connection of this agent; nullopt if it is new.
  std::optional<NodeId> former_of(const Join& join) const;

  /// Returns the node that has the requested rank; nullopt if it is free or none is requested.
  std::optional<NodeId> holder_of_rank(const Join& join) const;

  /// Returns nodes whose leases have expired.
  std::vector<NodeId> silent(Time now) const;
  std::optional<Time> first_lease_end() const;

  /// nullopt if there are no nodes.
  std::optional<Time> first_notice() const;

  /// Schedules the next notice of all nodes.
  void notify_at(Time time);

  /// Returns the nodes that are due a notice, and schedules their next one at that time.
  std::vector<NodeId> take_notices(Time now, Time next);

  /// Ends expired hold-backs; ends all of them if otherwise too few nodes are present.
  void end_holding_back(Time now, int nodes_min);

  /// Present nodes that are held back.
  std::vector<NodeId> held_back() const;
  std::optional<Time> next_backoff_expiry() const;

  /// Present nodes that are not held back, in rank order of a round of all of them.
  std::vector<NodeId> candidates() const;

  /// Assigns ranks of a new round to at most `nodes_max` of these nodes and marks their workers as
  /// running. Returns them by node rank; the others are spares.
  std::vector<NodeId> form_round(const std::vector<NodeId>& nodes, std::size_t nodes_max);

  /// Records the activity of a node's ranks. Does nothing without such a node.
  void note(NodeId id, const RankActivity& activity, Time now);

  /// Returns the waits of ranks on nodes other than this one, and the lower median of the work
  /// shares of all nodes, weighted by their ranks.
  RankActivity activity_for(NodeId id, Time now) const;

  /// Marks the round's workers as ended on all nodes; each node's next notice is due at
  /// `first_notice`.
  void end_round(Time first_notice);

 private:
  bool are_others_waiting(NodeId id) const;
  void note_wait(Member& member, NodeId id, std::optional<Time> since);
  void note_work_share(Member& member, int share);
  int median_work_share() const;
  std::vector<NodeId> by_rank(const std::vector<NodeId>& nodes, std::size_t nodes_max) const;

  std::map<NodeId, Member> members_;
  std::set<std::pair<Time, NodeId>> waits_;  ///< Member::waits_since of all nodes that wait
  /// Number of ranks by Member::work_share of their node.
  std::array<std::int64_t, kWholeWorkShare + 1> ranks_by_share_{};
};

}  // namespace ddprun::membership
