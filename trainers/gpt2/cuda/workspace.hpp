// Sizes of the operations' workspaces, and the division of their sums, which depend on shapes only,
// so that sums are always computed in the same order. Pure.
#pragma once

#include "trainers/compute/operations.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

namespace trainer::cuda {

/// Number of parts of a sum over rows: enough to occupy a device, and few enough that adding them
/// is fast.
inline constexpr std::size_t kChunksMax = 64;
inline constexpr std::size_t kRowsOfChunkMin = 64;

inline std::size_t rows_of_chunk(std::size_t rows) {
  return std::max(kRowsOfChunkMin, (rows + kChunksMax - 1) / kChunksMax);
}

inline std::size_t chunks_of(std::size_t rows) {
  return (rows + rows_of_chunk(rows) - 1) / rows_of_chunk(rows);
}

/// Minimum number of array elements per block.
inline constexpr std::size_t kSmallestTile = 1024;

template <typename Operation>
std::size_t workspace_bytes(const Operation&) {
  return 0;
}

inline std::size_t workspace_bytes(const SumOfRows& o) {
  return chunks_of(o.rows) * o.columns * sizeof(float);
}

/// For the gradients of weight and bias.
inline std::size_t workspace_bytes(const LayerNormBackward& o) {
  return 2 * chunks_of(o.rows) * o.channels * sizeof(float);
}

inline std::size_t workspace_bytes(const BatchNorm& o) {
  return chunks_of(o.rows) * o.columns * sizeof(float);
}

/// For two sums of each column, by chunk and in total.
inline std::size_t workspace_bytes(const BatchNormBackward& o) {
  return 2 * (chunks_of(o.rows) + 1) * o.columns * sizeof(float);
}

inline std::size_t workspace_bytes(std::span<const AddSum> operations) {
  std::size_t tiles = 0;
  for (const AddSum& o : operations) tiles += o.elements / kSmallestTile + 1;
  return tiles * sizeof(double);
}

inline std::size_t workspace_bytes(const AttentionBackward& o) {
  return o.sequences * o.heads * o.context * sizeof(float);
}

}  // namespace trainer::cuda
