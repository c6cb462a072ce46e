// NCCL as the machine of a worker has it.
#pragma once

#include "worker_runtime/backends/nccl/nccl_calls.hpp"
#include <ddprun/gpu_library.hpp>

namespace ddprun::nccl {

const GpuLibrary& nccl_library();

/// NCCL's functions, from where its library is found first. Throws Error{Errc::nccl} that says
/// where it was looked for, and what was wrong there.
NcclCalls load_nccl();

}  // namespace ddprun::nccl
