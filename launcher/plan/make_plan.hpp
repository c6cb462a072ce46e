// Makes the plan of a run from the options and the facts of the host. Pure.
#pragma once

#include "launcher/cli/given_values.hpp"
#include "launcher/cli/launch_options.hpp"
#include "launcher/plan/host_facts.hpp"
#include "launcher/plan/launch_plan.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// Returns the plan. Appends reasons why the run is impossible to `problems`, which must be empty.
/// If there are any, the plan has no workers and is only valid for check_start().
LaunchPlan make_plan(const LaunchOptions& options, const HostFacts& facts,
                     std::vector<std::string>& problems);

/// Returns the problems with the options that do not depend on the machine, with make_plan()'s
/// texts. Used for other nodes, because their environment is only partly known.
std::vector<std::string> problems_anywhere(const LaunchOptions& options,
                                           const EnvironmentLookup& environment);

}  // namespace ddprun
