// Ctrl-Z: the whole run stops with the agent and goes on with it. Runs on the agent's one thread.
#pragma once

#include "launcher/output/output_router.hpp"
#include "launcher/process/containment.hpp"

#include <chrono>

namespace ddprun {

/// True if SIGTSTP means what it usually does: a program that ignores it was started so that
/// nothing should suspend it.
bool can_be_suspended();

/// Freezes everything that the run has started, stops this process as SIGTSTP does by default, and
/// lets the rest go on when SIGCONT has come. Blocks meanwhile; returns how long. SIGTSTP must have
/// its default action. Returns at once where the kernel does not stop the process because no shell
/// would ever continue it.
std::chrono::steady_clock::duration suspend(Containment& containment, OutputRouter& router);

}  // namespace ddprun
