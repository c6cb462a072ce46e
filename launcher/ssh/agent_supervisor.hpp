// The ddprun that ssh starts on a node: a small supervisor and, as its child, the agent. The
// supervisor forwards signals, asks the agent to leave the run when the connection ends, and
// reports how the agent ended, also if it was killed. It never has the secret of the run.
#pragma once

#include "launcher/ssh/agent_start.hpp"

#include <functional>

namespace ddprun::ssh {

/// Forks. The child reads its task from standard input and returns the result of `run_agent`, or
/// throws the exceptions of that or of read_agent_start(). The parent blocks until the child has
/// ended and returns its exit code (128 + N for signal N). Once there is a task, it forwards the
/// signals whose numbers arrive on standard input, sends SIGTERM at its end, and writes the exit of
/// the agent to standard error as a marked line. Signals that the parent itself receives are
/// forwarded as well. If the parent dies the child is killed. REQUIRES: the process has one thread.
int run_supervised_agent(const std::function<int(const AgentStart&)>& run_agent);

}  // namespace ddprun::ssh
