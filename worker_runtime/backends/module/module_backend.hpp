// The runtime's side of the interface: loads a module, and implements Backend with its functions.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/backends/group_place.hpp"
#include <ddprun/group_options.hpp>

#include <memory>
#include <string>

namespace ddprun {

/// Loads the module of a backend ("gloo") for the life of the process. Returns why it cannot be
/// used; empty if it can.
std::string module_unavailable_reason(const std::string& name);

/// Throws Error if module_unavailable_reason() has a reason. Does not connect to the other ranks.
std::unique_ptr<Backend> create_module_backend(const std::string& name, const GroupPlace& place,
                                               const GroupOptions& options);

}  // namespace ddprun
