// What the device is asked through: CUDA's runtime, NCCL, and our own kernels.
#pragma once

#include "worker_runtime/backends/nccl/limited_call.hpp"
#include "worker_runtime/backends/nccl/nccl_calls.hpp"
#include "worker_runtime/cuda/cuda_calls.hpp"
#include "worker_runtime/cuda/exam_kernels.hpp"
#include "worker_runtime/cuda/kernel_calls.hpp"
#include <ddprun/deadline.hpp>

namespace ddprun::nccl {

struct Libraries {
  /// Loads it, the first time. Throws Error{Errc::nccl}. Ranks that are alone need none.
  const NcclCalls& (*nccl)() = nullptr;
  const cuda::CudaCalls* cuda = nullptr;
  const cuda::KernelCalls* kernels = nullptr;
  const cuda::ExamKernels* exam = nullptr;
  /// For each of what is asked of a driver before anything can be watched or aborted.
  Deadline::Duration driver_timeout = kDriverTimeout;
};

}  // namespace ddprun::nccl
