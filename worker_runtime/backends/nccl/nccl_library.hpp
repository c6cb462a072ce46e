// Loads the NCCL library.
#pragma once

#include "worker_runtime/backends/nccl/nccl_calls.hpp"
#include <ddprun/gpu_library.hpp>

namespace ddprun::nccl {

const GpuLibrary& nccl_library();

/// Returns the functions of the first NCCL library found. Throws Error{Errc::nccl} with the
/// searched places and their problems.
NcclCalls load_nccl();

}  // namespace ddprun::nccl
