// Backward pass of attention for bfloat16 on tensor cores. Weights and gradients of scores are
// rounded to bfloat16 before multiplication.
#pragma once

#include "trainers/gpt2/cuda/kernels/attention_backward.cuh"
#include "trainers/gpt2/cuda/kernels/tensor_tiles.cuh"

namespace trainer::cuda {

/// Weights and gradients of scores of a tile of queries and a tile of keys.
template <int kHead>
struct TensorBackwardTiles {
  TokenTile<kHead> queries;
  TokenTile<kHead> keys;
  TokenTile<kHead> values;
  TokenTile<kHead> gradients;  ///< gradients of the output
  ScoreTile scores;
  ScoreTile by_weights;
  WeightTile weights;
  WeightTile by_scores;

  /// To be called by the whole block; has barriers before it changes the last four members and at
  /// the end.
  __device__ void differentiate(const AttentionBackwardArrays<Bfloat16>& a, std::size_t first_query,
                                std::size_t first_key) {
    multiply_tokens(queries, keys, scores);
    multiply_tokens(gradients, values, by_weights);
    __syncthreads();
    const int row = threadIdx.x / kLanesOfToken;
    const std::size_t query = first_query + row;
    const bool is_there = query < a.context;
    const std::size_t at = (blockIdx.z * a.heads + blockIdx.y) * a.context + query;
    const float log_sum = is_there ? a.log_sum[at] : 0.0F;
    const float mean = is_there ? a.means[at] : 0.0F;
    for (int k = 0; k < kKeysOfLane; ++k) {
      const int key = threadIdx.x % kLanesOfToken + k * kLanesOfToken;
      const bool is_seen = is_there && first_key + key <= query;
      const float weight = is_seen ? expf(scores.items[row][key] * a.scale - log_sum) : 0.0F;
      round_to(weight, weights.items[row][key]);
      round_to(weight * (by_weights.items[row][key] - mean), by_scores.items[row][key]);
    }
    __syncthreads();
  }
};

/// Loads a tile of a head's queries, keys or values, or of the output's gradient.
template <int kWidth, int kHead>
__device__ void read_tokens_of(HeadPlace<const Bfloat16> head, int which, std::size_t tile,
                               const AttentionBackwardArrays<Bfloat16>& a, TokenTile<kHead>& to) {
  read_tokens<kWidth>(head.first + which * head.apart, head.stride, tile * kTokens, a.context,
                      a.head_size, to);
}

/// Block (x, head, sequence): gradient of a tile of queries, the last ones first.
template <int kWidth, int kHead>
__global__ void __launch_bounds__(kTensorThreads)
    tensor_query_gradient_kernel(const AttentionBackwardArrays<Bfloat16> a) {
  __shared__ TensorBackwardTiles<kHead> tiles;
  const std::size_t query_tile = gridDim.x - 1 - blockIdx.x;
  const auto head = projected_head(a.projections, a.context, a.heads, a.head_size);
  const auto gradient = output_head(a.output_gradient, a.context, a.heads, a.head_size);
  read_tokens_of<kWidth>(head, 0, query_tile, a, tiles.queries);
  read_tokens_of<kWidth>(gradient, 0, query_tile, a, tiles.gradients);
  TokenSums<kHead> sums;
  for (std::size_t tile = 0; tile <= query_tile; ++tile) {
    __syncthreads();  // all threads have finished with the last tile
    read_tokens_of<kWidth>(head, 1, tile, a, tiles.keys);
    read_tokens_of<kWidth>(head, 2, tile, a, tiles.values);
    __syncthreads();
    tiles.differentiate(a, query_tile * kTokens, tile * kTokens);
    sums.template add<ByRows>(tiles.by_scores, tiles.keys);
  }
  const auto result = projected_head(a.projections_gradient, a.context, a.heads, a.head_size);
  sums.write(a.scale, tiles.scores, query_tile * kTokens, a.context, a.head_size, result);
}

/// Block (x, head, sequence): gradients of a tile of keys and of their values.
template <int kWidth, int kHead>
__global__ void __launch_bounds__(kTensorThreads)
    tensor_key_gradient_kernel(const AttentionBackwardArrays<Bfloat16> a) {
  __shared__ TensorBackwardTiles<kHead> tiles;
  const std::size_t key_tile = blockIdx.x;
  const auto head = projected_head(a.projections, a.context, a.heads, a.head_size);
  const auto gradient = output_head(a.output_gradient, a.context, a.heads, a.head_size);
  read_tokens_of<kWidth>(head, 1, key_tile, a, tiles.keys);
  read_tokens_of<kWidth>(head, 2, key_tile, a, tiles.values);
  TokenSums<kHead> key_sums;
  TokenSums<kHead> value_sums;
  for (std::size_t tile = key_tile; tile < gridDim.x; ++tile) {
    __syncthreads();  // all threads have finished with the last tile
    read_tokens_of<kWidth>(head, 0, tile, a, tiles.queries);
    read_tokens_of<kWidth>(gradient, 0, tile, a, tiles.gradients);
    __syncthreads();
    tiles.differentiate(a, tile * kTokens, key_tile * kTokens);
    key_sums.template add<ByColumns>(tiles.by_scores, tiles.queries);
    value_sums.template add<ByColumns>(tiles.weights, tiles.gradients);
  }
  auto result = projected_head(a.projections_gradient, a.context, a.heads, a.head_size);
  const auto write = [&](TokenSums<kHead>& sums, float factor) {
    result.first += result.apart;
    sums.write(factor, tiles.scores, key_tile * kTokens, a.context, a.head_size, result);
  };
  write(key_sums, a.scale);
  write(value_sums, 1.0F);
}

}  // namespace trainer::cuda
