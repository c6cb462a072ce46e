// `ddprun --ssh` where it was typed: starts the nodes, shows what they say and ends as the run
// does.
#pragma once

#include "launcher/ssh/ssh_plan.hpp"

namespace ddprun::ssh {

/// Returns the exit code when all nodes have ended. Throws what only a mistake of ddprun's can
/// cause.
int run_over_ssh(const SshPlan& plan);

}  // namespace ddprun::ssh
