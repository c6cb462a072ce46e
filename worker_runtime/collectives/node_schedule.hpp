// Transfers of a collective between nodes. Pure: every rank computes its own transfers from the
// layout, and both sides of a transfer compute the same range.
//
// Each node sends data directly to the rank that needs it instead of along a ring, so that one rank
// combines the contributions of all nodes to an element, in node order, regardless of message size
// and position. The traffic is the same, 2 (n - 1) / n of the message into and out of each of n
// nodes.
//
// A large message is divided into lanes, one for each mover, a rank of every node that moves data;
// a lane is divided into parts, one for each node, which the node's mover of the lane owns.
#pragma once

#include "worker_runtime/collectives/node_layout.hpp"
#include "worker_runtime/collectives/slicing.hpp"

#include <cstddef>
#include <vector>

namespace ddprun::collectives {

/// Elements sent to or received from `peer`.
struct Transfer {
  int peer = 0;
  Range range;

  bool operator==(const Transfer&) const = default;
};

/// Transfers of one rank in one step, ordered by peer.
struct Transfers {
  std::vector<Transfer> sends;
  std::vector<Transfer> receives;
};

/// Division of a message of `elements` elements for the nodes of a layout.
class LanePlan {
 public:
  LanePlan(const NodeLayout& layout, std::size_t elements, std::size_t element_bytes)
      : layout_(layout), elements_(elements), element_bytes_(element_bytes) {}

  /// Returns the elements of lane `lane`. Lanes are disjoint and cover the message.
  Range lane(int lane) const;
  /// Returns the elements of the lane that node `node` owns. Parts are disjoint and cover the lane.
  Range part(int lane, int node) const;

  /// Returns the lane that the rank moves; -1 if none.
  int lane_of(int rank) const;

  /// Every mover sends each part of its lane to the owner.
  Transfers to_owners(int rank) const;
  /// Owners send their part to the movers of the lane on all other nodes except node `except` (-1:
  /// none).
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
