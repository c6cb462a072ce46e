#include <ddprun/pipeline.hpp>

#include <string>
#include <utility>

namespace ddprun {

PipelineGroups make_pipeline_groups(ProcessGroup& workers, int stages) {
  const PipelinePlace place = pipeline_place(workers.rank(), workers.size(), stages);
  std::optional<ProcessGroup> pipeline;
  std::optional<ProcessGroup> replicas;
  // new_group() is a collective of all ranks, including those outside the group.
  for (int replica = 0; replica < place.replicas; ++replica) {
    std::vector<int> ranks;
    for (int stage = 0; stage < stages; ++stage) ranks.push_back(replica * stages + stage);
    auto group = workers.new_group(ranks, "pipeline" + std::to_string(replica));
    if (group) pipeline = std::move(group);
  }
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<int> ranks;
    for (int replica = 0; replica < place.replicas; ++replica)
      ranks.push_back(replica * stages + stage);
    auto group = workers.new_group(ranks, "stage" + std::to_string(stage));
    if (group) replicas = std::move(group);
  }
  return {.place = place, .stages = std::move(*pipeline), .replicas = std::move(*replicas)};
}

}  // namespace ddprun
