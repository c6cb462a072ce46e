// Products of bfloat16 tiles in shared memory on tensor cores, for attention. A block of four warps
// has tiles of 32 tokens; each warp computes a quarter, 16 rows and 16 columns, of each 32 columns
// of a result.
#pragma once

#include "trainers/gpt2/cuda/kernels/attention.cuh"

#include <mma.h>

#include <type_traits>

namespace trainer::cuda {

namespace wmma = nvcuda::wmma;

inline constexpr int kTokens = 32;          // tokens per tile
inline constexpr int kSide = 16;            // size of a warp's matrix product
inline constexpr int kTensorThreads = 128;  // four lanes per token
inline constexpr int kLanesOfToken = kTensorThreads / kTokens;
inline constexpr int kKeysOfLane = kTokens / kLanesOfToken;

using ByRows = wmma::row_major;
using ByColumns = wmma::col_major;
using Sums = wmma::fragment<wmma::accumulator, kSide, kSide, kSide, float>;

// Strides that avoid bank conflicts; loads need multiples of 16 bytes, and tiles that start at
// multiples of 32.
template <int kHead>
struct alignas(32) TokenTile {
  static constexpr int kStride = kHead + 8;
  Bfloat16 items[kTokens][kStride];
};
struct alignas(32) WeightTile {
  static constexpr int kStride = kTokens + 8;
  Bfloat16 items[kTokens][kStride];
};
struct alignas(32) ScoreTile {
  static constexpr int kStride = kTokens + 4;
  float items[kTokens][kStride];
};

/// Position of the calling warp's quarter.
inline __device__ int quarter_row() {
  return threadIdx.x / kLanes / 2 * kSide;
}
inline __device__ int quarter_column() {
  return threadIdx.x / kLanes % 2 * kSide;
}

/// sums += left * right for the warp's 16 rows and columns. `left` [16, kInner], `right` [kInner,
/// 16], by rows or by columns.
template <int kInner, typename LeftOrder, typename RightOrder>
__device__ void accumulate(const Bfloat16* left, int left_stride, const Bfloat16* right,
                           int right_stride, Sums& sums) {
  constexpr bool kLeftByRows = std::is_same_v<LeftOrder, ByRows>;
  constexpr bool kRightByRows = std::is_same_v<RightOrder, ByRows>;
  for (int inner = 0; inner < kInner; inner += kSide) {
    wmma::fragment<wmma::matrix_a, kSide, kSide, kSide, Bfloat16, LeftOrder> a;
    wmma::fragment<wmma::matrix_b, kSide, kSide, kSide, Bfloat16, RightOrder> b;
    wmma::load_matrix_sync(a, left + inner * (kLeftByRows ? 1 : left_stride), left_stride);
    wmma::load_matrix_sync(b, right + inner * (kRightByRows ? right_stride : 1), right_stride);
    wmma::mma_sync(sums, a, b, sums);
  }
}

/// scores = left * transposed(right), by the whole block, which must synchronise afterwards.
template <int kHead>
__device__ void multiply_tokens(const TokenTile<kHead>& left, const TokenTile<kHead>& right,
                                ScoreTile& scores) {
  constexpr int kStride = TokenTile<kHead>::kStride;
  Sums sums;
  wmma::fill_fragment(sums, 0.0F);
  accumulate<kHead, ByRows, ByColumns>(left.items[quarter_row()], kStride,
                                       right.items[quarter_column()], kStride, sums);
  wmma::store_matrix_sync(&scores.items[quarter_row()][quarter_column()], sums, ScoreTile::kStride,
                          wmma::mem_row_major);
}

/// The warp's part of [32, kHead] sums: 16 rows, and 16 of each 32 columns.
template <int kHead>
struct TokenSums {
  static constexpr int kParts = kHead / kTokens;
  Sums parts[kParts];

  __device__ TokenSums() {
    for (auto& part : parts) wmma::fill_fragment(part, 0.0F);
  }

  /// += weights * tokens, where the weights are [32, 32], by rows or transposed.
  template <typename WeightOrder>
  __device__ void add(const WeightTile& weights, const TokenTile<kHead>& tokens) {
    constexpr bool kByRows = std::is_same_v<WeightOrder, ByRows>;
    const Bfloat16* left =
        kByRows ? weights.items[quarter_row()] : &weights.items[0][quarter_row()];
    for (int part = 0; part < kParts; ++part) {
      const Bfloat16* right = &tokens.items[0][part * kTokens + quarter_column()];
      accumulate<kTokens, WeightOrder, ByRows>(left, WeightTile::kStride, right,
                                               TokenTile<kHead>::kStride, parts[part]);
    }
  }

  /// Writes factor * sums to the existing tokens from `first` on. To be called by the whole block;
  /// `staging` must be unused, and is unused afterwards.
  __device__ void write(float factor, ScoreTile& staging, std::size_t first, std::size_t context,
                        std::size_t head_size, HeadPlace<Bfloat16> to) {
    for (int part = 0; part < kParts; ++part) {
      wmma::store_matrix_sync(&staging.items[quarter_row()][quarter_column()], parts[part],
                              ScoreTile::kStride, wmma::mem_row_major);
      __syncthreads();
      for (int i = threadIdx.x; i < kTokens * kTokens; i += kTensorThreads) {
        const int row = i / kTokens;
        const std::size_t item = part * kTokens + i % kTokens;
        if (first + row < context && item < head_size) {
          round_to(factor * staging.items[row][i % kTokens],
                   to.first[(first + row) * to.stride + item]);
        }
      }
      __syncthreads();
    }
  }
};

/// Loads tokens from `first` on; zeros beyond the end.
template <int kWidth, int kHead>
__device__ void read_tokens(const Bfloat16* from, std::size_t stride, std::size_t first,
                            std::size_t context, std::size_t head_size, TokenTile<kHead>& to) {
  using Items = Pack<Bfloat16, kWidth>;
  constexpr int kPacks = kHead / kWidth;
  for (int i = threadIdx.x; i < kTokens * kPacks; i += kTensorThreads) {
    const int row = i / kPacks;
    const int item = i % kPacks * kWidth;
    const bool is_there = first + row < context && item < static_cast<int>(head_size);
    Items items;
    if (is_there) {
      items = *reinterpret_cast<const Items*>(from + (first + row) * stride + item);
    } else {
      for (auto& one : items.items) one = __float2bfloat16_rn(0.0F);
    }
    *reinterpret_cast<Items*>(&to.items[row][item]) = items;
  }
}

}  // namespace trainer::cuda
