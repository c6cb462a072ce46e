// Ranks that are processes of one node: the collectives of shared memory over a memfd that rank 0
// makes and hands to the others.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/process_group.hpp>
#include <ddprun/worker_env.hpp>

#include <memory>
#include <string>

namespace ddprun {

/// Why the host backend cannot be used for the workers of `env`; empty if it can.
std::string host_unavailable_reason(const WorkerEnv& env);

/// Meets the other ranks through the store of `env`. Blocking.
std::unique_ptr<Backend> create_host_backend(const WorkerEnv& env, const GroupOptions& options,
                                             Deadline deadline);

}  // namespace ddprun
