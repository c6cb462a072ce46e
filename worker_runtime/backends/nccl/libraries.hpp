// Function tables of CUDA's runtime, NCCL, and our kernels.
#pragma once

#include "worker_runtime/backends/nccl/limited_call.hpp"
#include "worker_runtime/backends/nccl/nccl_calls.hpp"
#include "worker_runtime/cuda/cuda_calls.hpp"
#include "worker_runtime/cuda/exam_kernels.hpp"
#include "worker_runtime/cuda/kernel_calls.hpp"
#include <ddprun/deadline.hpp>

namespace ddprun::nccl {

struct Libraries {
  /// Loads NCCL on the first call. Throws Error{Errc::nccl}. Not called in groups of one rank.
  const NcclCalls& (*nccl)() = nullptr;
  const cuda::CudaCalls* cuda = nullptr;
  const cuda::KernelCalls* kernels = nullptr;
  const cuda::ExamKernels* exam = nullptr;
  /// Time limit of driver calls that cannot be aborted.
  Deadline::Duration driver_timeout = kDriverTimeout;
};

}  // namespace ddprun::nccl
