// All-reduces with known results among the workers of a node: in pairs, and among all workers.
#pragma once

#include "rendezvous/base/preflight_limits.hpp"
#include "worker_runtime/preflight/pairing.hpp"
#include <ddprun/buffer.hpp>
#include <ddprun/deadline.hpp>
#include <ddprun/process_group.hpp>

#include <cstddef>
#include <string>

namespace ddprun::preflight {

struct ExchangeSettings {
  Device device{};  ///< device of this rank's buffers
  /// Large enough that bandwidth dominates latency, and small compared with any memory.
  std::size_t elements = std::size_t{1} << 20;
  /// Time limit of a connection, and of all all-reduces over it.
  Deadline::Duration limit = kPreflightExchangeLimit;
};

struct Exchange {
  double bytes_per_second = 0;  ///< rate of the fastest correct all-reduce; 0: none
  std::string problem{};        ///< message of the last failure
  bool is_own_problem = false;  ///< the failure is not that of another rank alone
};

/// Exchanges with each partner of `pairings` in turn. Call it on every rank of `group`. Throws
/// failures of `group` itself.
Exchange exchange_in_pairs(ProcessGroup group, const ExchangeSettings& settings);

/// Exchanges among all ranks of the group, which must not be used after a problem.
Exchange exchange_with_all(ProcessGroup group, const ExchangeSettings& settings);

}  // namespace ddprun::preflight
