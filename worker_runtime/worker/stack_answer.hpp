// Lets the agent request the stacks of this process' threads (see
// rendezvous/control/thread_stack.hpp). Install it once, in the main thread, since signal handlers
// are process-wide.
#pragma once

#include <string>

namespace ddprun::worker {

/// Makes each thread answer requests through the agent's pipe next to `error_file`. Does nothing if
/// the path is empty or too long. Call it after install_failure_report(), which prepares
/// backtrace(3).
void install_stack_dump_handler(const std::string& error_file);

}  // namespace ddprun::worker
