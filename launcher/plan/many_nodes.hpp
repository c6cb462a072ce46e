// Plans the nodes and the rendezvous of a run of several nodes. Pure.
#pragma once

#include "launcher/cli/launch_options.hpp"
#include "launcher/plan/launch_plan.hpp"
#include "launcher/plan/rdzv_conf.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// Returns true if --nnodes allows more than one node.
bool has_many_nodes(const LaunchOptions& options);

/// Appends errors to `problems` and risks to `warnings`. `host_name` is this machine's.
NodesPlan plan_nodes(const LaunchOptions& options, const RdzvConf& conf,
                     const std::string& host_name, std::vector<std::string>& problems,
                     std::vector<std::string>& warnings);

/// Returns the run's name, on which all nodes must agree.
std::string run_id_of_nodes(const LaunchOptions& options);

}  // namespace ddprun
