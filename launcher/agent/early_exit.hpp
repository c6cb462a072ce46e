// Detects workers that exit with code 0 while other ranks wait for them in a collective or in the
// creation of a group. Without this, the other ranks wait until their timeout. Pure.
#pragma once

#include "launcher/report/event.hpp"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct EarlyExit {
  std::size_t exit = 0;  ///< index in `exits`
  std::string before;    ///< value for WorkerExited::ended_before

  bool operator==(const EarlyExit&) const = default;
};

/// Returns the first of `exits` that succeeded while other ranks waited for its rank, if `flights`,
/// read at `read_at`, prove this; otherwise nullopt. A rank whose wait had failed before the exit,
/// by a timeout or an abort, and that continues has handled the failure. A rank that ends after its
/// group has failed does not make others wait.
std::optional<EarlyExit> find_early_exit(const std::vector<WorkerExited>& exits,
                                         const std::vector<RankFlights>& flights,
                                         std::chrono::system_clock::time_point read_at);

}  // namespace ddprun
