// The kernels of PowerSGD as nvcc makes them, and their launches.
#include "worker_runtime/cuda/kernels/low_rank_launches.hpp"
#include "worker_runtime/cuda/low_rank_kernels.hpp"

#include <cuda_runtime.h>

namespace ddprun::cuda {

namespace {

cudaError_t run(const LowRankOrder& order, std::span<const LowRankMatrix> matrices,
                cudaStream_t stream) {
  const auto launch = [stream](auto* kernel, const LowRankBatch& batch, unsigned threads) {
    kernel<<<batch.blocks, threads, 0, stream>>>(batch);
    return cudaGetLastError();
  };
  return run_low_rank(order, matrices, launch);
}

}  // namespace

const LowRankKernels& low_rank_kernels() {
  static constexpr LowRankKernels kKernels{.run = run};
  return kKernels;
}

}  // namespace ddprun::cuda
