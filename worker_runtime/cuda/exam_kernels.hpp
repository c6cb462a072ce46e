// Function table of the kernels of a device examination: compiled by nvcc, or of a test without a
// GPU. All are asynchronous on `stream`.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace ddprun::cuda {

/// Result of one thread that checks a pattern.
struct PatternFault {
  std::uint64_t wrong = 0;  ///< number of wrong words
  std::uint64_t first = 0;  ///< index of one of them
  std::uint64_t found = 0;  ///< its value
};

/// Number of blocks, enough to occupy any device.
inline constexpr unsigned kExamBlocks = 528;
inline constexpr unsigned kExamThreads = 256;
inline constexpr std::size_t kExamFaults = std::size_t{kExamBlocks} * kExamThreads;

struct ExamKernels {
  /// Writes the pattern of a round. Two rounds set every bit to 0 and 1. All words differ, so that
  /// a misplaced word is detected.
  cudaError_t (*fill)(std::uint64_t* words, std::size_t count, std::uint64_t round,
                      cudaStream_t stream);
  /// Compares with the pattern of fill(), and sets all kExamFaults of `faults`, on the device.
  cudaError_t (*check)(const std::uint64_t* words, std::size_t count, std::uint64_t round,
                       PatternFault* faults, cudaStream_t stream);
  /// product = left * right, all [n, n] float32 by rows.
  cudaError_t (*multiply)(const float* left, const float* right, float* product, unsigned n,
                          cudaStream_t stream);
};

/// The kernels compiled by nvcc.
const ExamKernels& exam_kernels();

}  // namespace ddprun::cuda
