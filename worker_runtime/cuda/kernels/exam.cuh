// Kernels of the device examination. Plain CUDA C++ for nvcc, and for a host compiler with an
// emulation of the device.
#pragma once

#include "worker_runtime/cuda/exam_kernels.hpp"

#include <cstddef>
#include <cstdint>

namespace ddprun::cuda {

/// Size of the square tiles that a block multiplies.
inline constexpr unsigned kExamTile = 16;
static_assert(kExamTile * kExamTile == kExamThreads);

inline __device__ std::uint64_t pattern_word(std::uint64_t index, std::uint64_t round) {
  const std::uint64_t word = index * 0x9E3779B97F4A7C15ULL;
  return round % 2 == 0 ? word : ~word;
}

__global__ void __launch_bounds__(kExamThreads)
    fill_pattern(std::uint64_t* words, std::size_t count, std::uint64_t round) {
  const std::size_t step = std::size_t{gridDim.x} * kExamThreads;
  for (std::size_t i = std::size_t{blockIdx.x} * kExamThreads + threadIdx.x; i < count; i += step)
    words[i] = pattern_word(i, round);
}

__global__ void __launch_bounds__(kExamThreads)
    check_pattern(const std::uint64_t* words, std::size_t count, std::uint64_t round,
                  PatternFault* faults) {
  const std::size_t own = std::size_t{blockIdx.x} * kExamThreads + threadIdx.x;
  const std::size_t step = std::size_t{gridDim.x} * kExamThreads;
  PatternFault fault{};
  for (std::size_t i = own; i < count; i += step) {
    const std::uint64_t word = words[i];
    if (word == pattern_word(i, round)) continue;
    if (fault.wrong++ > 0) continue;
    fault.first = i;
    fault.found = word;
  }
  faults[own] = fault;
}

/// One block per tile of the product, one thread per element. Both factors are loaded through
/// shared memory, so that arithmetic and shared memory are tested as well.
__global__ void __launch_bounds__(kExamThreads)
    multiply_tiles(const float* left, const float* right, float* product, unsigned n) {
  __shared__ float left_tile[kExamTile][kExamTile];
  __shared__ float right_tile[kExamTile][kExamTile];
  const unsigned x = threadIdx.x % kExamTile;
  const unsigned y = threadIdx.x / kExamTile;
  const unsigned row = blockIdx.y * kExamTile + y;
  const unsigned column = blockIdx.x * kExamTile + x;
  float sum = 0;
  for (unsigned first = 0; first < n; first += kExamTile) {
    const bool has_left = row < n && first + x < n;
    const bool has_right = column < n && first + y < n;
    left_tile[y][x] = has_left ? left[std::size_t{row} * n + first + x] : 0;
    right_tile[y][x] = has_right ? right[std::size_t{first + y} * n + column] : 0;
    __syncthreads();
    for (unsigned k = 0; k < kExamTile; ++k) sum += left_tile[y][k] * right_tile[k][x];
    __syncthreads();
  }
  if (row < n && column < n) product[std::size_t{row} * n + column] = sum;
}

}  // namespace ddprun::cuda
