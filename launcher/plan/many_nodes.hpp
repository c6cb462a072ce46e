// Plans the nodes and the rendezvous of a multi-node run. Pure.
#pragma once

#include "launcher/cli/launch_options.hpp"
#include "launcher/plan/launch_plan.hpp"
#include "launcher/plan/rdzv_conf.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// Returns true if --nnodes allows more than one node.
bool has_many_nodes(const LaunchOptions& options);

/// Plans the nodes. Appends to `problems` and `warnings`. `host_name`: name of this machine.
NodesPlan plan_nodes(const LaunchOptions& options, const RdzvConf& conf,
                     const std::string& host_name, std::vector<std::string>& problems,
                     std::vector<std::string>& warnings);

/// Returns the run's name, which must be equal on all nodes.
std::string run_id_of_nodes(const LaunchOptions& options);

}  // namespace ddprun
