// PowerSGD on a device, for many matrices in one launch. Plain CUDA C++: for nvcc, and for another
// compiler behind an emulation of what a kernel finds on a device.
//
// The products read each matrix once for every kRanksAtOnce rows of P and Q, which is what they
// cost. How terms are shared out depends on the shapes alone, and no two threads add to the same
// place, so that results never differ in a bit.
#pragma once

#include "worker_runtime/backends/low_rank_matrix.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace ddprun::cuda {

inline constexpr unsigned kLowRankThreads = 256;
/// A block has a whole matrix to itself there.
inline constexpr unsigned kOrthonormaliseThreads = 256;
inline constexpr unsigned kLowRankLanes = 32;
inline constexpr unsigned kRanksAtOnce = 4;
/// As many as ranks at once: a warp then loads as much of M as of Q, which is in a cache.
inline constexpr unsigned kRowsOfWarp = 4;
inline constexpr unsigned kRowsOfBlock = kLowRankThreads / kLowRankLanes * kRowsOfWarp;
inline constexpr std::size_t kRowsExpanded = 16;
/// What is left of a row after the others were taken out of it, by its length before: below this it
/// is rounding. As on the processor.
inline constexpr float kDependentRow = 1e-5F;
/// As many as fit into the 4 KiB of parameters that every device and toolkit takes.
inline constexpr std::size_t kMatricesPerLaunch = 60;

struct LowRankPiece {
  LowRankMatrix m;
  unsigned first_block;  ///< among those of all pieces
};

struct LowRankBatch {
  LowRankPiece pieces[kMatricesPerLaunch];
  LowRankOrder order;
  unsigned count;
  unsigned blocks;
};

inline __device__ const LowRankPiece& own_piece(const LowRankBatch& batch) {
  unsigned first = 0;
  for (unsigned end = batch.count; end - first > 1;) {
    const unsigned middle = (first + end) / 2;
    (batch.pieces[middle].first_block <= blockIdx.x ? first : end) = middle;
  }
  return batch.pieces[first];
}

/// The calling thread's element, where a block has kLowRankThreads of them.
inline __device__ std::size_t own_element(const LowRankPiece& piece) {
  return std::size_t{blockIdx.x - piece.first_block} * kLowRankThreads + threadIdx.x;
}

inline __device__ float warp_sum(float value) {
  for (int distance = kLowRankLanes / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(~0U, value, distance);
  return value;
}

/// For all threads of a block of kOrthonormaliseThreads.
inline __device__ float block_sum(float value) {
  __shared__ float sums[kOrthonormaliseThreads / kLowRankLanes];
  value = warp_sum(value);
  __syncthreads();  // all have read those of the last sum
  if (threadIdx.x % kLowRankLanes == 0) sums[threadIdx.x / kLowRankLanes] = value;
  __syncthreads();
  const unsigned lane = threadIdx.x % kLowRankLanes;
  return warp_sum(lane < kOrthonormaliseThreads / kLowRankLanes ? sums[lane] : 0);
}

/// A number within 0 and 1, both excluded: SplitMix64 (Steele, Lea, Flood, 2014) at `index`.
inline __device__ double uniform_at(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t bits = seed + (index + 1) * 0x9e3779b97f4a7c15ULL;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
  bits ^= bits >> 31;
  return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
}

__global__ void __launch_bounds__(kLowRankThreads)
    fill_right_kernel(const __grid_constant__ LowRankBatch batch) {
  const LowRankPiece& piece = own_piece(batch);
  const std::size_t i = own_element(piece);
  if (i >= batch.order.rank * piece.m.columns) return;
  // Box and Muller's transformation.
  const double radius = sqrt(-2.0 * log(uniform_at(batch.order.seed, 2 * i)));
  const double angle = 6.283185307179586 * uniform_at(batch.order.seed, 2 * i + 1);
  piece.m.right[i] = static_cast<float>(radius * cos(angle));
}

inline __device__ float dot_of_rows(const float* left, const float* right, std::size_t length) {
  float sum = 0;
  for (std::size_t i = threadIdx.x; i < length; i += kOrthonormaliseThreads)
    sum += left[i] * right[i];
  return block_sum(sum);
}

/// A block for each matrix. Each thread has elements of its own, of all rows.
__global__ void __launch_bounds__(kOrthonormaliseThreads)
    orthonormalise_kernel(const __grid_constant__ LowRankBatch batch) {
  const LowRankMatrix& m = own_piece(batch).m;
  const bool is_left = batch.order.step == LowRankStep::orthonormalise_left;
  float* const rows = is_left ? m.left : m.right;
  const std::size_t length = is_left ? m.rows : m.columns;
  for (std::size_t k = 0; k < batch.order.rank; ++k) {
    float* const row = rows + k * length;
    const float before = sqrtf(dot_of_rows(row, row, length));
    for (std::size_t other = 0; other < k; ++other) {
      const float* const taken_out = rows + other * length;
      const float product = dot_of_rows(row, taken_out, length);
      for (std::size_t i = threadIdx.x; i < length; i += kOrthonormaliseThreads)
        row[i] -= product * taken_out[i];
    }
    const float now = sqrtf(dot_of_rows(row, row, length));
    const float factor = now > kDependentRow * before ? 1 / now : 0;
    for (std::size_t i = threadIdx.x; i < length; i += kOrthonormaliseThreads) row[i] *= factor;
  }
}

/// A warp has kRowsOfWarp rows of M, its lanes every 32nd column.
__global__ void __launch_bounds__(kLowRankThreads)
    project_columns_kernel(const __grid_constant__ LowRankBatch batch) {
  const LowRankPiece& piece = own_piece(batch);
  const LowRankMatrix& m = piece.m;
  const unsigned lane = threadIdx.x % kLowRankLanes;
  const std::size_t first = std::size_t{blockIdx.x - piece.first_block} * kRowsOfBlock +
                            threadIdx.x / kLowRankLanes * kRowsOfWarp;
  for (unsigned k = 0; k < batch.order.rank; k += kRanksAtOnce) {
    const unsigned ranks =
        batch.order.rank - k < kRanksAtOnce ? batch.order.rank - k : kRanksAtOnce;
    float sums[kRowsOfWarp][kRanksAtOnce] = {};
    for (std::size_t j = lane; j < m.columns; j += kLowRankLanes) {
      float right[kRanksAtOnce];
      for (unsigned r = 0; r < kRanksAtOnce; ++r)
        right[r] = r < ranks ? m.right[(k + r) * m.columns + j] : 0;
      for (unsigned i = 0; i < kRowsOfWarp; ++i) {
        const float value = first + i < m.rows ? m.matrix[(first + i) * m.columns + j] : 0;
        for (unsigned r = 0; r < kRanksAtOnce; ++r) sums[i][r] += value * right[r];
      }
    }
    for (unsigned i = 0; i < kRowsOfWarp; ++i) {
      for (unsigned r = 0; r < kRanksAtOnce; ++r) {
        const float sum = warp_sum(sums[i][r]);
        if (lane == 0 && r < ranks && first + i < m.rows)
          m.left[(k + r) * m.rows + first + i] = sum;
      }
    }
  }
}

/// A block has kLowRankThreads columns of a chunk of rows, whose sums it leaves in `partial`.
__global__ void __launch_bounds__(kLowRankThreads)
    project_chunks_kernel(const __grid_constant__ LowRankBatch batch) {
  __shared__ float left[kRanksAtOnce][kLowRankChunk];
  const LowRankPiece& piece = own_piece(batch);
  const LowRankMatrix& m = piece.m;
  const std::size_t across = (m.columns + kLowRankThreads - 1) / kLowRankThreads;
  const std::size_t block = blockIdx.x - piece.first_block;
  const std::size_t column = block % across * kLowRankThreads + threadIdx.x;
  const std::size_t chunk = block / across;
  const std::size_t first = chunk * kLowRankChunk;
  const std::size_t rows = m.rows - first < kLowRankChunk ? m.rows - first : kLowRankChunk;
  for (unsigned k = 0; k < batch.order.rank; k += kRanksAtOnce) {
    const unsigned ranks =
        batch.order.rank - k < kRanksAtOnce ? batch.order.rank - k : kRanksAtOnce;
    __syncthreads();  // all have read those of the ranks before
    for (std::size_t t = threadIdx.x; t < kRanksAtOnce * kLowRankChunk; t += kLowRankThreads) {
      const std::size_t r = t / kLowRankChunk;
      const std::size_t i = t % kLowRankChunk;
      left[r][i] = r < ranks && i < rows ? m.left[(k + r) * m.rows + first + i] : 0;
    }
    __syncthreads();
    if (column >= m.columns) continue;
    float sums[kRanksAtOnce] = {};
    for (std::size_t i = 0; i < rows; ++i) {
      const float value = m.matrix[(first + i) * m.columns + column];
      for (unsigned r = 0; r < kRanksAtOnce; ++r) sums[r] += value * left[r][i];
    }
    for (unsigned r = 0; r < ranks; ++r)
      m.partial[(chunk * batch.order.rank + k + r) * m.columns + column] = sums[r];
  }
}

/// What project_chunks_kernel has left, to Q.
__global__ void __launch_bounds__(kLowRankThreads)
    sum_chunks_kernel(const __grid_constant__ LowRankBatch batch) {
  const LowRankPiece& piece = own_piece(batch);
  const LowRankMatrix& m = piece.m;
  const std::size_t elements = batch.order.rank * m.columns;
  const std::size_t i = own_element(piece);
  if (i >= elements) return;
  float sum = 0;
  for (std::size_t first = 0, at = i; first < m.rows; first += kLowRankChunk, at += elements)
    sum += m.partial[at];
  m.right[i] = sum;
}

/// A block has kLowRankThreads columns of kRowsExpanded rows.
__global__ void __launch_bounds__(kLowRankThreads)
    expand_kernel(const __grid_constant__ LowRankBatch batch) {
  const LowRankPiece& piece = own_piece(batch);
  const LowRankMatrix& m = piece.m;
  const std::size_t across = (m.columns + kLowRankThreads - 1) / kLowRankThreads;
  const std::size_t block = blockIdx.x - piece.first_block;
  const std::size_t column = block % across * kLowRankThreads + threadIdx.x;
  if (column >= m.columns) return;
  const std::size_t first = block / across * kRowsExpanded;
  const std::size_t end = first + kRowsExpanded < m.rows ? first + kRowsExpanded : m.rows;
  for (std::size_t i = first; i < end; ++i) {
    float value = 0;
    for (std::size_t k = 0; k < batch.order.rank; ++k)
      value += m.left[k * m.rows + i] * m.right[k * m.columns + column];
    const std::size_t at = i * m.columns + column;
    if (m.errors != nullptr) m.errors[at] = m.matrix[at] - value;
    m.matrix[at] = batch.order.factor * value;
  }
}

}  // namespace ddprun::cuda
