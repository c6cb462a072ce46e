// The frame of a worker program: what happens before and after the training function. main() calls
// run_worker() and returns its result.
#pragma once

#include <ddprun/worker_env.hpp>

#include <functional>

namespace ddprun {

/// Reads the environment, tells the agent that this worker is alive (so that its death is known at
/// once, whatever its memory), sees to it that an uncaught exception or a fatal signal is described
/// in the error file, and calls `body`. Returns body's result; after an exception, whose
/// message is also printed to stderr, 2 if it is an Error{Errc::usage} (an unusable environment is
/// one, too) and otherwise 1. To be called once, by the main thread.
int run_worker(const std::function<int(const WorkerEnv&)>& body) noexcept;

}  // namespace ddprun
