// Entry point of worker programs. main() calls run_worker() and returns its result.
#pragma once

#include <ddprun/worker_env.hpp>

#include <functional>

namespace ddprun {

/// Runs a worker. Reads the environment, registers this worker with the agent (which then detects
/// its death immediately), installs handlers that describe uncaught exceptions and fatal signals in
/// the error file, and calls `body`. Returns the result of `body`. After an exception, prints the
/// message to stderr and returns 2 for Error{Errc::usage}, including an invalid environment, or 1.
/// Must be called once, by the main thread.
int run_worker(const std::function<int(const WorkerEnv&)>& body) noexcept;

}  // namespace ddprun
