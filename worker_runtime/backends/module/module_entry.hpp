// The module's side of the interface: wraps a Backend in the functions of module.hpp. Compiled into
// each module.
#pragma once

#include "worker_runtime/backends/module/module.hpp"

#include <memory>

namespace ddprun::module {

/// Defined by each module.
std::unique_ptr<Backend> create(const Member& member);

}  // namespace ddprun::module
