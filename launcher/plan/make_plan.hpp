// From what the operator asked for and what the machine is to what will be done. Pure.
#pragma once

#include "launcher/cli/given_values.hpp"
#include "launcher/cli/launch_options.hpp"
#include "launcher/plan/host_facts.hpp"
#include "launcher/plan/launch_plan.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// Appends to `problems`, which is empty before, what prevents the plan. If there is anything, the
/// plan is good for check_start() alone: the workers are missing.
LaunchPlan make_plan(const LaunchOptions& options, const HostFacts& facts,
                     std::vector<std::string>& problems);

/// What stands against the options on whatever machine: some of a plan's problems, in the same
/// words. For nodes that are elsewhere, of whose environment some is known.
std::vector<std::string> problems_anywhere(const LaunchOptions& options,
                                           const EnvironmentLookup& environment);

}  // namespace ddprun
