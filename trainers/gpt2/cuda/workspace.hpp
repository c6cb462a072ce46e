// How much memory an operation's kernels need meanwhile, and how they share out their sums; the
// shapes alone decide, so that the same sums are always formed in the same order. Pure.
#pragma once

#include "trainers/compute/operations.hpp"

#include <algorithm>
#include <cstddef>
#include <span>

namespace trainer::cuda {

/// Parts that a sum over rows is made in: enough to keep a device busy, and not so many that adding
/// them up takes long.
inline constexpr std::size_t kChunksMax = 64;
inline constexpr std::size_t kRowsOfChunkMin = 64;

inline std::size_t rows_of_chunk(std::size_t rows) {
  return std::max(kRowsOfChunkMin, (rows + kChunksMax - 1) / kChunksMax);
}

inline std::size_t chunks_of(std::size_t rows) {
  return (rows + rows_of_chunk(rows) - 1) / rows_of_chunk(rows);
}

/// A block sums at least so many elements of an array.
inline constexpr std::size_t kSmallestTile = 1024;

template <typename Operation>
std::size_t workspace_bytes(const Operation&) {
  return 0;
}

inline std::size_t workspace_bytes(const SumOfRows& o) {
  return chunks_of(o.rows) * o.columns * sizeof(float);
}

/// Of the weight's gradient and the bias'.
inline std::size_t workspace_bytes(const LayerNormBackward& o) {
  return 2 * chunks_of(o.rows) * o.channels * sizeof(float);
}

inline std::size_t workspace_bytes(const BatchNorm& o) {
  return chunks_of(o.rows) * o.columns * sizeof(float);
}

/// Of two sums of each column, by chunks and in all.
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
