// Detects workers that end with exit code 0 while other ranks wait for them in a collective or in
// the creation of a group, and would wait until their timeout. Pure.
#pragma once

#include "launcher/report/event.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct EarlyExit {
  std::size_t exit = 0;  ///< index into the exits
  std::string before;    ///< WorkerExited::ended_before

  bool operator==(const EarlyExit&) const = default;
};

/// Returns the first of `exits` that succeeded although other ranks wait for its rank, if `flights`
/// prove it.
std::optional<EarlyExit> find_early_exit(const std::vector<WorkerExited>& exits,
                                         const std::vector<RankFlights>& flights);

}  // namespace ddprun
