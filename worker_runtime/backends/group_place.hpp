// Where a worker stands in a group: what a backend needs to know to connect it. Plain values.
#pragma once

#include "worker_runtime/backends/rank_names.hpp"
#include <ddprun/worker_env.hpp>

#include <vector>

namespace ddprun {

struct GroupPlace {
  /// As if the group's ranks were all the workers that there are.
  WorkerEnv env;
  /// The group's ranks among all workers, ascending; empty: they are all workers.
  std::vector<int> workers{};
  int world_size = 1;  ///< number of all workers

  RankNames names() const { return RankNames(workers); }
};

/// In the group of all workers.
GroupPlace place_among_all(const WorkerEnv& env);

/// In a group of those ranks of `parent`'s group, ascending, the own one among them. `node_of` has
/// the node of each rank of the parent.
GroupPlace place_among(const GroupPlace& parent, const std::vector<int>& ranks,
                       const std::vector<int>& node_of);

}  // namespace ddprun
