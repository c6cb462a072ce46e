// A plan as text, for --dry_run. Pure.
#pragma once

#include "launcher/plan/launch_plan.hpp"

#include <string>
#include <string_view>

namespace ddprun {

/// The run's settings, the environment that all workers have in common, then each worker's command,
/// streams with their files, CPUs and environment of its own. Ports and paths that are only known
/// at the start are named as such.
std::string describe_plan(const LaunchPlan& plan);

/// This node, what its workers run and the plan's warnings, in a line each.
std::string summarize_plan(const LaunchPlan& plan);

/// `word` as a shell reads it back: unchanged if it is harmless, else in single quotes.
std::string shell_quoted(std::string_view word);

}  // namespace ddprun
