// What can be seen to be wrong with a call before anything is sent. Pure.
#pragma once

#include "worker_runtime/backends/backend.hpp"

namespace ddprun {

/// Throws Error{Errc::usage} saying what is wrong with `operation` in a group of `size` ranks when
/// `rank` calls it. `reaches_devices`: the backend takes buffers on CUDA devices.
void check_operation(const Operation& operation, int rank, int size, bool reaches_devices);

}  // namespace ddprun
