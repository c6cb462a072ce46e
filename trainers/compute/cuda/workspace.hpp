// How much memory an operation's kernels need meanwhile, and how they share out their sums; the
// shapes alone decide, so that the same sums are always formed in the same order. Pure.
#pragma once

#include "trainers/compute/operations.hpp"

#include <algorithm>
#include <cstddef>

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

/// Blocks that sum a whole array: some thousand elements each, until no device has room for more.
inline std::size_t sum_blocks(std::size_t elements) {
  constexpr std::size_t kElementsOfBlock = 8192;
  constexpr std::size_t kBlocksMax = 1024;
  return std::clamp<std::size_t>(elements / kElementsOfBlock, 1, kBlocksMax);
}

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

inline std::size_t workspace_bytes(const AddSum& o) {
  return sum_blocks(o.elements) * sizeof(double);
}

inline std::size_t workspace_bytes(const AttentionBackward& o) {
  return o.sequences * o.heads * o.context * sizeof(float);
}

}  // namespace trainer::cuda
