// Who sends which elements to whom when a collective spans nodes. Pure: every rank computes its own
// transfers from the layout, and both sides of each come to the same range.
//
// Data go from each node to the rank that needs them in one step, not around a ring: so the
// contributions of all nodes to an element come together in one place, where they are combined in
// the order of the nodes whatever the size and the position of the element. The bytes are the same,
// 2 (n - 1) / n of the message into and out of each of n nodes.
//
// A large message is cut into lanes, one for each of the ranks that move data on every node; and a
// lane into parts, one for each node, whose mover of that lane owns the part.
#pragma once

#include "worker_runtime/collectives/node_layout.hpp"
#include "worker_runtime/collectives/slicing.hpp"

#include <cstddef>
#include <vector>

namespace ddprun::collectives {

/// Elements that go to `peer`, or come from it.
struct Transfer {
  int peer = 0;
  Range range;

  bool operator==(const Transfer&) const = default;
};

/// What one rank does in one step. In the order of the peers.
struct Transfers {
  std::vector<Transfer> sends;
  std::vector<Transfer> receives;
};

/// A message of `elements` elements as it is cut for the nodes of a layout.
class LanePlan {
 public:
  LanePlan(const NodeLayout& layout, std::size_t elements, std::size_t element_bytes)
      : layout_(layout), elements_(elements), element_bytes_(element_bytes) {}

  /// The elements that lane `lane` moves. The lanes are disjoint and cover everything.
  Range lane(int lane) const;
  /// Of these the ones that node `node` owns. Disjoint and covering.
  Range part(int lane, int node) const;

  /// The lane that the rank moves; -1 if it moves none.
  int lane_of(int rank) const;

  /// Every rank has a contribution to its whole lane: each part goes to its owner.
  Transfers to_owners(int rank) const;
  /// Owners send their part to the movers of the lane on all other nodes but `except`, which needs
  /// none (-1: there is no such node).
  Transfers from_owners(int rank, int except = -1) const;
  /// Owners send their part to the mover on `node`.
  Transfers owners_to(int rank, int node) const;
  /// The mover on `node` sends each owner its part.
  Transfers to_owners_from(int rank, int node) const;

 private:
  Transfers reversed(Transfers transfers) const;

  const NodeLayout& layout_;
  std::size_t elements_;
  std::size_t element_bytes_;
};

}  // namespace ddprun::collectives
