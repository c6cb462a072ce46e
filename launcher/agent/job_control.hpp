// Ctrl-Z: suspends the whole run, including its clock, with the agent. Runs on the agent's thread.
#pragma once

#include "launcher/output/output_router.hpp"
#include "launcher/process/containment.hpp"

#include <chrono>

namespace ddprun {

/// Returns true if SIGTSTP has its default action. A parent that ignores it does not want the
/// program to be suspended.
bool can_be_suspended();

/// Freezes all processes of the run, stops this process as SIGTSTP does by default, and continues
/// the others on SIGCONT. Blocks meanwhile, and returns the duration. REQUIRES: SIGTSTP has its
/// default action. Returns immediately if the kernel does not stop the process because it belongs
/// to no shell that could continue it.
std::chrono::steady_clock::duration suspend(Containment& containment, OutputRouter& router);

}  // namespace ddprun
