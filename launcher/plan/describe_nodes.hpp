// Describes the nodes of a run before the rendezvous, for --dry_run. Pure.
#pragma once

#include "launcher/plan/launch_plan.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// Ranks of this node and of its first worker if all nodes join.
struct ExpectedPlace {
  int node_rank = 0;
  int node_count = 1;
  int first_rank = 0;
  int world_size = 1;

  bool operator==(const ExpectedPlace&) const = default;
};

/// Returns the ranks, or nullopt unless a configuration file lists exactly the nodes of the run and
/// their numbers of workers.
std::optional<ExpectedPlace> expected_place(const LaunchPlan& plan);

/// Returns text such as "node1 (10.0.0.1), 2 workers" for each node.
std::vector<std::string> describe_named_nodes(const std::vector<NamedNode>& nodes);

/// Returns a summary line and a line for each known node, each with a newline. The plan must have
/// nodes.
std::string describe_nodes(const LaunchPlan& plan);

}  // namespace ddprun
