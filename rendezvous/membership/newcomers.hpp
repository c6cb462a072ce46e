// Connections that have still to show that they are worth keeping, at most so many: one more pushes
// out the oldest, so that whoever holds places without using them cannot keep others out. Pure.
#pragma once

#include "rendezvous/membership/coordination.hpp"

#include <cstddef>
#include <optional>
#include <set>

namespace ddprun::membership {

class Newcomers {
 public:
  explicit Newcomers(std::size_t most) : most_(most) {}

  /// Ids grow. Returns the one that has to go for it, which is forgotten.
  std::optional<NodeId> add(NodeId id) {
    ids_.insert(id);
    if (ids_.size() <= most_) return std::nullopt;
    const NodeId oldest = *ids_.begin();
    ids_.erase(ids_.begin());
    return oldest;
  }

  void remove(NodeId id) { ids_.erase(id); }

 private:
  std::size_t most_;
  std::set<NodeId> ids_;
};

}  // namespace ddprun::membership
