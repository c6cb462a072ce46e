// What a run is refused for, or warns of, although its plan is in order: a file that it needs is
// missing or open to others, a folder cannot be created, a secret can be guessed. Checked before
// anything is started, and by --dry_run and config check, so that all report the same. Reads files,
// changes none.
#pragma once

#include "launcher/plan/launch_plan.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// Appends to `problems` what prevents the start, and to the plan's warnings what is dangerous.
void check_start(LaunchPlan& plan, std::vector<std::string>& problems);

}  // namespace ddprun
