// What a look at a device is done with, as a table of functions: kernels that nvcc made, or a
// test's that need no GPU. Each returns once `stream` has been given the work.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace ddprun::cuda {

/// What one thread has found in memory that should hold a pattern.
struct PatternFault {
  std::uint64_t wrong = 0;  ///< words
  std::uint64_t first = 0;  ///< the index of one of them
  std::uint64_t found = 0;  ///< what it was
};

/// Blocks, enough of them to keep any device busy.
inline constexpr unsigned kExamBlocks = 528;
inline constexpr unsigned kExamThreads = 256;
inline constexpr std::size_t kExamFaults = std::size_t{kExamBlocks} * kExamThreads;

struct ExamKernels {
  /// The pattern of a round. In two rounds every bit is 0 and 1, and no two words are alike, so
  /// that one that landed elsewhere is seen, too.
  cudaError_t (*fill)(std::uint64_t* words, std::size_t count, std::uint64_t round,
                      cudaStream_t stream);
  /// What is not as that round's fill() has left it. Fills all kExamFaults of `faults`, on the
  /// device.
  cudaError_t (*check)(const std::uint64_t* words, std::size_t count, std::uint64_t round,
                       PatternFault* faults, cudaStream_t stream);
  /// product = left * right, all [n, n] float32 by rows.
  cudaError_t (*multiply)(const float* left, const float* right, float* product, unsigned n,
                          cudaStream_t stream);
};

/// Those that nvcc made.
const ExamKernels& exam_kernels();

}  // namespace ddprun::cuda
