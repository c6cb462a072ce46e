// Checks of the arguments of a call. Pure.
#pragma once

#include "worker_runtime/backends/backend.hpp"

namespace ddprun {

/// Throws Error{Errc::usage} if `operation` is invalid for `rank` of a group of `size` ranks.
/// `device`: the device on which buffers may be; null for host buffers only.
void check_operation(const Operation& operation, int rank, int size, const Device* device);

}  // namespace ddprun
