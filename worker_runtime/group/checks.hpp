// What can be seen to be wrong with a call before anything is sent. Pure.
#pragma once

#include "worker_runtime/backends/backend.hpp"

namespace ddprun {

/// Throws Error{Errc::usage} saying what is wrong with `operation` in a group of `size` ranks when
/// `rank` calls it. `device`: the one on which buffers may be, too; null if there is none.
void check_operation(const Operation& operation, int rank, int size, const Device* device);

}  // namespace ddprun
