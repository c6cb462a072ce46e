// All-reduces among the workers of a node whose results are known: by pairs, and of all at once.
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
  Device device{};  ///< where this rank's buffers lie
  /// Large enough for the rate to count rather than the way there, small beside any memory.
  std::size_t elements = std::size_t{1} << 20;
  /// Of each: a connection that does not come about is given up after it, and so are all-reduces
  /// that are not all over after it.
  Deadline::Duration limit = kPreflightExchangeLimit;
};

struct Exchange {
  double bytes_per_second = 0;  ///< of the fastest that was right; 0: none was
  std::string problem{};        ///< what the last one that failed has said
  bool is_own_problem = false;  ///< and it is not that of another rank alone
};

/// With each partner of `pairings`, one after another. Every rank of `group` calls it. Throws what
/// the group itself fails with.
Exchange exchange_in_pairs(ProcessGroup group, const ExchangeSettings& settings);

/// Of all ranks of the group, which must not be used any more if there is a problem.
Exchange exchange_with_all(ProcessGroup group, const ExchangeSettings& settings);

}  // namespace ddprun::preflight
