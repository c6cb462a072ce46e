// Device and backend of a worker from its options.
#pragma once

#include "trainers/compute/compute.hpp"
#include <ddprun/worker_env.hpp>

#include <memory>
#include <string>

namespace trainer {

/// `device`: cpu, with `threads` threads, or cuda, the GPU with the worker's local rank.
std::unique_ptr<Compute> make_compute(const std::string& device, int threads,
                                      const ddprun::WorkerEnv& env);

/// Returns the requested backend; for auto on a GPU one that supports device memory, even for a
/// single worker.
std::string backend_for(const std::string& device, const std::string& wanted);

}  // namespace trainer
