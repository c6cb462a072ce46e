// Runs `ddprun --ssh`: starts the agents of all nodes, forwards signals and shows the output.
#pragma once

#include "launcher/ssh/ssh_plan.hpp"

namespace ddprun::ssh {

/// Blocks until all nodes have ended and returns the exit code of the run. Throws
/// Error{Errc::system} if the memory with the secret cannot be protected.
int run_over_ssh(const SshPlan& plan);

}  // namespace ddprun::ssh
