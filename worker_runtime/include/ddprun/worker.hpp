// Entry point of worker programs. main() calls run_worker() and returns its result.
#pragma once

#include <ddprun/worker_env.hpp>

#include <functional>

namespace ddprun {

/// Reads the environment, registers this worker with the agent, which then detects its death at
/// once, installs handlers that describe uncaught exceptions and fatal signals in the error file,
/// and calls `body`. Returns its result. After an exception it prints the message to stderr and
/// returns 2 for Error{Errc::usage}, including an invalid environment, and 1 otherwise. To be
/// called once, by the main thread.
int run_worker(const std::function<int(const WorkerEnv&)>& body) noexcept;

}  // namespace ddprun
