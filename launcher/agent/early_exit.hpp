// A worker that ends with exit code 0 has done its part, unless others wait for it in a collective
// or to make a group: they would wait until their time limit. Pure.
#pragma once

#include "launcher/report/event.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct EarlyExit {
  std::size_t exit = 0;  ///< which of the exits is its
  std::string before;    ///< WorkerExited::ended_before

  bool operator==(const EarlyExit&) const = default;
};

/// The first of `exits` that succeeded although others wait for its rank, as far as `flights` tell
/// for certain.
std::optional<EarlyExit> find_early_exit(const std::vector<WorkerExited>& exits,
                                         const std::vector<RankFlights>& flights);

}  // namespace ddprun
