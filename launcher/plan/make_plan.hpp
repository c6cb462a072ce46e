// Makes the plan of a run from the options and the facts of the host. Pure.
#pragma once

#include "launcher/cli/given_values.hpp"
#include "launcher/cli/launch_options.hpp"
#include "launcher/plan/host_facts.hpp"
#include "launcher/plan/launch_plan.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// Appends the reasons why the run is impossible to `problems`, which must be empty. If there are
/// any, the plan has no workers and is good for check_start() only.
LaunchPlan make_plan(const LaunchOptions& options, const HostFacts& facts,
                     std::vector<std::string>& problems);

/// Returns the problems that the options have on any machine, with the texts of make_plan(). For
/// other nodes, of whose environment only a part is known.
std::vector<std::string> problems_anywhere(const LaunchOptions& options,
                                           const EnvironmentLookup& environment);

}  // namespace ddprun
