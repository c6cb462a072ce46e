// Formats a plan as text, for --dry_run. Pure.
#pragma once

#include "launcher/plan/launch_plan.hpp"

#include <string>
#include <string_view>

namespace ddprun {

/// Returns the settings of the run, the environment common to all workers, then the command, files,
/// CPUs and further environment of each. Ports and paths that are chosen at the start are marked.
std::string describe_plan(const LaunchPlan& plan);

/// Returns one line each for this node, its workers' command and each warning.
std::string summarize_plan(const LaunchPlan& plan);

/// Quotes `word` for a shell: returns it unchanged if it has no special characters, otherwise in
/// single quotes.
std::string shell_quoted(std::string_view word);

}  // namespace ddprun
