// Where a worker computes and what its process group is to be, from its options.
#pragma once

#include "trainers/compute/compute.hpp"
#include <ddprun/worker_env.hpp>

#include <memory>
#include <string>

namespace trainer {

/// `device` is cpu, where `threads` count, or cuda: the GPU with the worker's local rank.
std::unique_ptr<Compute> make_compute(const std::string& device, int threads,
                                      const ddprun::WorkerEnv& env);

/// The backend that is wanted, or for auto on a GPU the one that reaches its memory, also of one
/// worker alone.
std::string backend_for(const std::string& device, const std::string& wanted);

}  // namespace trainer
