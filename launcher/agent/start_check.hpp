// Checks the environment of a valid plan before the start: required files that are missing or
// accessible to other users, folders that cannot be created, weak secrets. Also used by --dry_run
// and `config check`, so all report the same problems. Reads files but does not change them.
#pragma once

#include "launcher/plan/launch_plan.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// Appends problems that prevent the start to `problems`, and risks to the plan's warnings.
void check_start(LaunchPlan& plan, std::vector<std::string>& problems);

}  // namespace ddprun
