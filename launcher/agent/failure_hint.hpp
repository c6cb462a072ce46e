// Hints about the usual cause and remedy of a failure, from the last lines of the worker. Pure.
#pragma once

#include "launcher/plan/launch_plan.hpp"
#include "launcher/report/event.hpp"

#include <string>

namespace ddprun {

/// Returns a hint, or an empty text if none applies. `has_input`: true if the worker inherited
/// ddprun's standard input.
std::string failure_hint(const WorkerExited& exit, const LaunchPlan& plan, bool has_input);

}  // namespace ddprun
