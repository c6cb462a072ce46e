// Kernels of the device examination, compiled by nvcc, and their launches.
#include "worker_runtime/cuda/kernels/exam.cuh"

#include <cuda_runtime.h>

namespace ddprun::cuda {

namespace {

cudaError_t fill(std::uint64_t* words, std::size_t count, std::uint64_t round,
                 cudaStream_t stream) {
  fill_pattern<<<kExamBlocks, kExamThreads, 0, stream>>>(words, count, round);
  return cudaGetLastError();
}

cudaError_t check(const std::uint64_t* words, std::size_t count, std::uint64_t round,
                  PatternFault* faults, cudaStream_t stream) {
  check_pattern<<<kExamBlocks, kExamThreads, 0, stream>>>(words, count, round, faults);
  return cudaGetLastError();
}

cudaError_t multiply(const float* left, const float* right, float* product, unsigned n,
                     cudaStream_t stream) {
  const unsigned tiles = (n + kExamTile - 1) / kExamTile;
  multiply_tiles<<<dim3(tiles, tiles), kExamThreads, 0, stream>>>(left, right, product, n);
  return cudaGetLastError();
}

}  // namespace

const ExamKernels& exam_kernels() {
  static constexpr ExamKernels kKernels{.fill = fill, .check = check, .multiply = multiply};
  return kKernels;
}

}  // namespace ddprun::cuda
