// A bounded set of connections that have not joined yet: a new one evicts the oldest, so that idle
// connections cannot exhaust the limit. Pure.
#pragma once

#include "rendezvous/membership/coordination.hpp"

#include <cstddef>
#include <optional>
#include <set>

namespace ddprun::membership {

class Newcomers {
 public:
  explicit Newcomers(std::size_t most) : most_(most) {}

  /// Adds an id, which must be larger than all others. Returns the evicted id, if any.
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
