// The nodes of a run as far as they are known before they have met: for --dry_run. Pure.
#pragma once

#include "launcher/plan/launch_plan.hpp"

#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// This node's place if all nodes come.
struct ExpectedPlace {
  int node_rank = 0;
  int node_count = 1;
  int first_rank = 0;
  int world_size = 1;

  bool operator==(const ExpectedPlace&) const = default;
};

/// Nothing unless a configuration file names just the nodes that take part, with their workers.
std::optional<ExpectedPlace> expected_place(const LaunchPlan& plan);

/// "node1 (10.0.0.1), 2 workers" for each.
std::vector<std::string> describe_named_nodes(const std::vector<NamedNode>& nodes);

/// A line for the whole, one for each node that is known, each with a newline. The plan has nodes.
std::string describe_nodes(const LaunchPlan& plan);

}  // namespace ddprun
