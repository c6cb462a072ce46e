// What the last lines of a failed worker usually mean, and the remedy. Pure.
#pragma once

#include "launcher/plan/launch_plan.hpp"
#include "launcher/report/event.hpp"

#include <string>

namespace ddprun {

/// Empty if its lines say enough by themselves. `has_input`: its standard input was ddprun's.
std::string failure_hint(const WorkerExited& exit, const LaunchPlan& plan, bool has_input);

}  // namespace ddprun
