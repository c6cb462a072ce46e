// The runtime's side of the border: finds and loads a module and is the Backend in front of it.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/backends/group_place.hpp"
#include <ddprun/group_options.hpp>

#include <memory>
#include <string>

namespace ddprun {

/// Why the module of that backend ("gloo") cannot be used: it is not installed, or what it needs is
/// not. Empty if it can; then it is loaded from now on, until the process ends.
std::string module_unavailable_reason(const std::string& name);

/// Throws Error if module_unavailable_reason() has a reason. Does not meet the other ranks yet.
std::unique_ptr<Backend> create_module_backend(const std::string& name, const GroupPlace& place,
                                               const GroupOptions& options);

}  // namespace ddprun
