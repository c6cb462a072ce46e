// From what the operator asked for and what the machine is to what will be done. Pure.
#pragma once

#include "launcher/cli/command_line.hpp"
#include "launcher/cli/launch_options.hpp"
#include "launcher/plan/host_facts.hpp"
#include "launcher/plan/launch_plan.hpp"

#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// The complete plan, or everything that stands against it.
std::variant<LaunchPlan, UsageProblem> make_plan(const LaunchOptions& options,
                                                 const HostFacts& facts);

/// What stands against the options on whatever machine: some of a plan's problems, in the same
/// words. For nodes that are elsewhere, of whose environment some is known.
std::vector<std::string> problems_anywhere(const LaunchOptions& options,
                                           const EnvironmentLookup& environment);

}  // namespace ddprun
