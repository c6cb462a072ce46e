// What PowerSGD is computed with on a device, as a table of functions: kernels that nvcc made, or a
// test's that need no GPU.
#pragma once

#include "worker_runtime/backends/low_rank_matrix.hpp"

#include <cuda_runtime_api.h>

#include <span>

namespace ddprun::cuda {

struct LowRankKernels {
  /// The step for each of the matrices. Results depend on the arguments alone, bit for bit. Returns
  /// once `stream` has been given the work; `matrices` may then be freed.
  cudaError_t (*run)(const LowRankOrder& order, std::span<const LowRankMatrix> matrices,
                     cudaStream_t stream);
};

/// Those that nvcc made.
const LowRankKernels& low_rank_kernels();

}  // namespace ddprun::cuda
