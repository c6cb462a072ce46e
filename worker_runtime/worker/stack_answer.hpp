// Lets the agent ask this process for the stacks of its threads while it runs (see
// rendezvous/control/thread_stack.hpp). A signal handler is a matter of the whole process, so this
// is installed once, by the main thread.
#pragma once

#include <string>

namespace ddprun::worker {

/// From now on each thread answers in the agent's pipe beside `error_file`; an empty path or one
/// that is too long means no answer. After install_failure_report(), which prepares backtrace(3).
void install_stack_answer(const std::string& error_file);

}  // namespace ddprun::worker
