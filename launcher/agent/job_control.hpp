// Suspends the whole run on Ctrl-Z, including its clock. Runs on the agent's thread.
#pragma once

#include "launcher/output/output_router.hpp"
#include "launcher/process/containment.hpp"

#include <chrono>

namespace ddprun {

/// Returns true if SIGTSTP has its default action. A parent that ignores it does not want the
/// program to be suspended.
bool can_be_suspended();

/// Freezes all processes of the run, stops this process like SIGTSTP does by default, and continues
/// the other processes on SIGCONT. Blocks until then, and returns the duration. REQUIRES: SIGTSTP
/// has its default action. Returns immediately if the kernel does not stop the process because no
/// shell could continue it.
std::chrono::steady_clock::duration suspend(Containment& containment, OutputRouter& router);

}  // namespace ddprun
