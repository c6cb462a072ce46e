#include "worker_runtime/backends/group_place.hpp"

#include <algorithm>

namespace ddprun {

GroupPlace place_among_all(const WorkerEnv& env) {
  return {.env = env, .world_size = env.world_size};
}

GroupPlace place_among(const GroupPlace& parent, const std::vector<int>& ranks,
                       const std::vector<int>& node_of) {
  GroupPlace place = parent;
  place.workers.clear();
  std::vector<int> nodes;
  for (const int rank : ranks) {
    place.workers.push_back(parent.names().number(rank));
    nodes.push_back(node_of[static_cast<std::size_t>(rank)]);
  }
  const auto own = std::find(ranks.begin(), ranks.end(), parent.env.rank) - ranks.begin();
  const int node = nodes[static_cast<std::size_t>(own)];
  WorkerEnv& env = place.env;
  env.rank = static_cast<int>(own);
  env.world_size = static_cast<int>(ranks.size());
  env.local_rank = static_cast<int>(std::count(nodes.begin(), nodes.begin() + own, node));
  env.local_world_size = static_cast<int>(std::count(nodes.begin(), nodes.end(), node));
  std::vector<int> all = nodes;
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  env.node_rank = static_cast<int>(std::find(all.begin(), all.end(), node) - all.begin());
  env.node_count = static_cast<int>(all.size());
  return place;
}

}  // namespace ddprun
