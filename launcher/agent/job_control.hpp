// Ctrl-Z: suspends the whole run, and its clock, with the agent. Runs on the agent's one thread.
#pragma once

#include "launcher/output/output_router.hpp"
#include "launcher/process/containment.hpp"

#include <chrono>

namespace ddprun {

/// True if SIGTSTP means what it usually does: a program that ignores it was started so that
/// nothing should suspend it.
bool can_be_suspended();

/// Freezes everything that the run has started, stops this process as SIGTSTP does by default, and
/// continues the rest on SIGCONT. Blocks meanwhile; returns for how long. SIGTSTP must have its
/// default action. Returns at once where the kernel does not stop the process because no shell
/// would ever continue it.
std::chrono::steady_clock::duration suspend(Containment& containment, OutputRouter& router);

}  // namespace ddprun
