// What a run would be refused for although its plan is in order: a file that it needs is missing or
// open to others, a folder cannot be made. Looked at before anything is started, also for those who
// only ask (--dry_run, config check), so that both hear the same. Reads files, changes nothing.
#pragma once

#include "launcher/plan/launch_plan.hpp"

#include <string>
#include <vector>

namespace ddprun {

/// A line for each; empty: nothing stands against the start.
std::vector<std::string> obstacles_to(const LaunchPlan& plan);

}  // namespace ddprun
