// A worker's place in a group, from which a backend connects it. Plain values.
#pragma once

#include "worker_runtime/backends/rank_names.hpp"
#include <ddprun/worker_env.hpp>

#include <string>
#include <vector>

namespace ddprun {

struct GroupPlace {
  /// Environment in which the group's ranks are all workers.
  WorkerEnv env;
  /// Ranks among all workers of the group's ranks, ascending; empty for all workers.
  std::vector<int> workers{};
  int world_size = 1;  ///< number of all workers

  /// `group`: the group's name, for names of its collectives.
  RankNames names(const std::string& group = {}) const { return RankNames(workers, group); }
};

/// Returns the place in the group of all workers.
GroupPlace place_among_all(const WorkerEnv& env);

/// Returns the place in the subgroup of `ranks`, ascending ranks of the parent group that include
/// this one. `node_of`: node of each rank of the parent.
GroupPlace place_among(const GroupPlace& parent, const std::vector<int>& ranks,
                       const std::vector<int>& node_of);

}  // namespace ddprun
