// Device and backend of a worker from its options.
#pragma once

#include "trainers/compute/compute.hpp"
#include <ddprun/worker_env.hpp>

#include <memory>
#include <string>

namespace trainer {

/// Returns the CPU with `threads` threads ("cpu") or the GPU with the local rank ("cuda").
std::unique_ptr<Compute> make_compute(const std::string& device, int threads,
                                      const ddprun::WorkerEnv& env);

/// Returns the requested backend; for auto on a GPU, a backend that supports device memory, even
/// for a single worker.
std::string backend_for(const std::string& device, const std::string& wanted);

}  // namespace trainer
