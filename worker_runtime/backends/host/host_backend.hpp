// Backend for ranks that are processes. The ranks of a node share a memfd, which the first of them
// creates and passes to the others; nodes are connected by TCP.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/backends/group_place.hpp"
#include <ddprun/deadline.hpp>
#include <ddprun/group_options.hpp>
#include <ddprun/worker_env.hpp>

#include <memory>
#include <string>

namespace ddprun {

/// Returns why the workers of `env` have no store; empty if they have one or need none.
std::string store_missing_reason(const WorkerEnv& env);

/// Returns why the host backend cannot be used for the workers of `env`; empty if it can.
std::string host_unavailable_reason(const WorkerEnv& env);

/// Connects to the other ranks through the store of the place's environment. Blocks. `backend`:
/// name of the group's backend, which is this one or uses it. Throws Error{Errc::usage} if an
/// earlier rank creates the group with another backend.
std::unique_ptr<WatchfulBackend> create_host_backend(const GroupPlace& place,
                                                     const GroupOptions& options,
                                                     const char* backend, Deadline deadline);

}  // namespace ddprun
