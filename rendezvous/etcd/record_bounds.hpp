// Maximum sizes of a run's values in etcd, so that no request exceeds etcd's limit. Pure.
#pragma once

#include "rendezvous/membership/bounds.hpp"

#include <algorithm>
#include <cstddef>

namespace ddprun::etcd {

/// etcd's default limit for a request (--max-request-bytes). Part of it is reserved for keys,
/// conditions and framing.
inline constexpr std::size_t kRequestBytesMax = std::size_t{1536} << 10;
inline constexpr std::size_t kFrameBytesMax = std::size_t{64} << 10;

inline constexpr std::size_t kRecordBytesMax = std::size_t{960} << 10;

/// Maximum bytes of an outcome, which is written together with a record. Drops, in this order:
/// collectives, details of failures, the last failures.
inline constexpr std::size_t kOutcomeBytesMax = std::size_t{512} << 10;

/// Maximum bytes of a configuration, which is written together with a record. For a longer
/// configuration, nodes only detect that it differs.
inline constexpr std::size_t kConfigBytesMax = std::size_t{512} << 10;

static_assert(kFrameBytesMax + kRecordBytesMax + std::max(kOutcomeBytesMax, kConfigBytesMax) <=
              kRequestBytesMax);

/// Maximum restart ages in a record, used with a restart window.
inline constexpr int kRestartAgesMax = 1000;

/// Maximum bytes of a node's name as JSON in a record with this many nodes: the only other part
/// that grows with them.
constexpr std::size_t name_bytes_max(int nodes_max) {
  constexpr std::size_t kRest = std::size_t{32} << 10;  ///< bytes of everything but the nodes
  constexpr std::size_t kNodeFields = 48;               ///< bytes of an entry, excluding the name
  const auto nodes = std::min(static_cast<std::size_t>(nodes_max), membership::kRoundNodesMax);
  return (kRecordBytesMax - kRest) / nodes - kNodeFields;
}

}  // namespace ddprun::etcd
