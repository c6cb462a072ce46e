// The ddprun that ssh starts on a machine: it runs the agent of its node, starts those below it,
// and stands between them and who has started it.
#pragma once

#include <ddprun/worker_env.hpp>

namespace ddprun::ssh {

/// The whole program: reads its task from standard input and ends when all of its nodes have.
/// When standard input ends, whoever started the run has gone, and the nodes are asked to leave.
/// Returns the exit code. Throws Error for a task that cannot be read.
int be_relay(const EnvironmentLookup& environment);

}  // namespace ddprun::ssh
