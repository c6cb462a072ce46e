// How long what a run writes into etcd can become, so that no request is refused for its length.
// Pure.
#pragma once

#include "rendezvous/membership/bounds.hpp"

#include <algorithm>
#include <cstddef>

namespace ddprun::etcd {

/// etcd's own bound for a request, unless it was told another (--max-request-bytes). A part of it
/// is for keys, conditions and what frames them.
inline constexpr std::size_t kRequestBytesMax = std::size_t{1536} << 10;
inline constexpr std::size_t kFrameBytesMax = std::size_t{64} << 10;

inline constexpr std::size_t kRecordBytesMax = std::size_t{960} << 10;

/// Of an outcome, which is written together with a record. What its report needs least is left out:
/// collectives, then what is known of the failures, then the last of these.
inline constexpr std::size_t kOutcomeBytesMax = std::size_t{512} << 10;

/// Of a configuration, which is written together with a record. Of a longer one nodes learn only
/// that theirs is another.
inline constexpr std::size_t kConfigBytesMax = std::size_t{512} << 10;

static_assert(kFrameBytesMax + kRecordBytesMax + std::max(kOutcomeBytesMax, kConfigBytesMax) <=
              kRequestBytesMax);

/// Restarts whose times the record holds, where only those within a window count.
inline constexpr int kRestartAgesMax = 1000;

/// Of a node's name as JSON in the record of a run that may have so many nodes: no other part of it
/// grows with them.
constexpr std::size_t name_bytes_max(int nodes_max) {
  constexpr std::size_t kRest = std::size_t{32} << 10;  ///< all but the nodes
  constexpr std::size_t kNodeFields = 48;               ///< of a node without its name
  const auto nodes = std::min(static_cast<std::size_t>(nodes_max), membership::kRoundNodesMax);
  return (kRecordBytesMax - kRest) / nodes - kNodeFields;
}

}  // namespace ddprun::etcd
