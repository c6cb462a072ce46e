// Reachability between nodes: the running probe and the results of the last one. Value type; makes
// no decisions.
#pragma once

#include "rendezvous/membership/messages.hpp"
#include "rendezvous/membership/roster.hpp"
#include "rendezvous/membership/settings.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::membership {

class Reachability {
 public:
  struct Node {
    NodeId id = 0;
    ProbeAddress address;  ///< port 0: the others do not connect to it
  };

  /// Starts a probe of all candidates of the roster: each connects to all others except the host,
  /// which all have reached. Returns the requests. If there is nothing to probe, discards all
  /// results and returns no requests. `timeout`: for each connection attempt; 0 disables probes.
  std::vector<std::pair<NodeId, Probe>> probe(const Roster& roster,
                                              std::chrono::milliseconds timeout, Time now);

  /// Starts a probe that accepts answers until `end` and returns its number. Answers to earlier
  /// probes are ignored.
  std::uint32_t begin(std::vector<Node> nodes, Time now, Time end);

  /// Returns the addresses of all nodes of the latest probe, in order; port 0 for `node` itself and
  /// for addresses of a family that it may lack.
  std::vector<ProbeAddress> peers_of(const Node& node) const;
  const std::vector<Node>& nodes() const { return nodes_; }

  void note(NodeId node, const Probed& probed);

  /// Stops waiting for the answer of a disconnected node.
  void forget(NodeId node) { pending_.erase(node); }

  bool is_running() const { return end_.has_value(); }

  /// Deadline of the running probe; nullopt if no probe is running.
  const std::optional<Time>& end() const { return end_; }

  /// Start of the latest probe.
  Time begun() const { return begun_; }

  /// Replaces the results with those of the running probe if all nodes have answered or its
  /// deadline has passed; otherwise returns false. Nodes without an answer count as having reached
  /// all others. If no node has reached any other, assumes a firewall that admits only the
  /// rendezvous, and records no cuts.
  bool conclude(Time now);

  /// Returns true if all these nodes took part in the last probe and its results have not expired.
  bool covers(const std::vector<NodeId>& nodes) const;

  /// Marks the results as outdated.
  void expire() { covered_.clear(); }

  /// Discards all results and the running probe.
  void clear();

  bool has_cuts() const { return !cuts_.empty(); }
  bool can_reach(NodeId from, NodeId to) const { return !cuts_.contains({from, to}); }
  bool is_cut(NodeId a, NodeId b) const { return !can_reach(a, b) || !can_reach(b, a); }

 private:
  std::uint32_t number_ = 0;
  std::vector<Node> nodes_;                            ///< nodes of the latest probe
  std::set<NodeId> pending_;                           ///< nodes that have not answered
  std::map<NodeId, std::set<std::uint32_t>> answers_;  ///< indices of unreachable nodes
  Time begun_{};
  std::optional<Time> end_;
  std::set<NodeId> covered_;
  std::set<std::pair<NodeId, NodeId>> cuts_;  ///< from, to
};

/// A pair of nodes of which at least one cannot reach the other.
struct NamedCut {
  std::string a;
  std::string b;
  bool a_reaches_b = false;
  bool b_reaches_a = false;
  bool is_with_host = false;  ///< one of them hosts the coordinator
};

/// Maximum number of cuts listed in messages.
inline constexpr std::size_t kCutsListedMax = 4;

/// Returns text such as "node b cannot reach c; both reach the host".
std::string describe_cuts(const std::vector<NamedCut>& cuts);

}  // namespace ddprun::membership
