// Ranks that are processes. Those of a node share memory, a memfd that the first of them makes and
// hands to the others; nodes are connected by TCP.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/backends/group_place.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/group_options.hpp>
#include <ddprun/worker_env.hpp>

#include <memory>
#include <string>

namespace ddprun {

/// Why the workers of `env` cannot meet at a store; empty if they can, or need none.
std::string store_missing_reason(const WorkerEnv& env);

/// Why the host backend cannot be used for the workers of `env`; empty if it can.
std::string host_unavailable_reason(const WorkerEnv& env);

/// Meets the other ranks through the store of the place's environment. Blocking. `backend` is the
/// one of the group: this one, or another one that uses this one. Throws Error{Errc::usage} if a
/// rank that came earlier creates the group with another backend.
std::unique_ptr<WatchfulBackend> create_host_backend(const GroupPlace& place,
                                                     const GroupOptions& options,
                                                     const char* backend, Deadline deadline);

}  // namespace ddprun
