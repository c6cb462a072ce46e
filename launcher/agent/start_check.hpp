// Checks the environment of a valid plan before the start: required files that are missing or
// accessible to other users, folders that cannot be created, weak secrets. --dry_run and config
// check use it too, so all report the same problems. Reads files, changes none.
#pragma once

#include "launcher/plan/launch_plan.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// Appends problems that prevent the start to `problems`, and risks to the plan's warnings.
void check_start(LaunchPlan& plan, std::vector<std::string>& problems);

}  // namespace ddprun
