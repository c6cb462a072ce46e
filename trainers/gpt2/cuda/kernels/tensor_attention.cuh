// Attention for bfloat16 on tensor cores. Four neighbouring lanes share a query; weights are
// rounded to bfloat16 before they are multiplied by the values.
#pragma once

#include "trainers/gpt2/cuda/kernels/tensor_tiles.cuh"

namespace trainer::cuda {

/// Finds the row of each of the calling lane's items of a Sums, which is unspecified: loads a
/// matrix of row numbers. `staging` must be unused, and is unused again after the next barrier.
inline __device__ void find_rows(ScoreTile& staging, int (&rows)[Sums::num_elements]) {
  for (int i = threadIdx.x; i < kTokens * kTokens; i += kTensorThreads)
    staging.items[i / kTokens][i % kTokens] = static_cast<float>(i / kTokens);
  __syncthreads();
  Sums numbers;
  wmma::load_matrix_sync(numbers, &staging.items[quarter_row()][quarter_column()],
                         ScoreTile::kStride, wmma::mem_row_major);
  for (int i = 0; i < Sums::num_elements; ++i) rows[i] = static_cast<int>(numbers.x[i]);
}

/// A query's sums over the keys so far, equal in all of its lanes.
struct Softmax {
  float most = -INFINITY;
  float total = 0;

  /// Replaces the scores of a tile's keys from `first` on by `weights` relative to the largest
  /// score so far, and returns the factor that makes earlier weights relative to it. Each query has
  /// a tile's first key.
  __device__ float add(const ScoreTile& scores, float scale, std::size_t query, std::size_t first,
                       WeightTile& weights) {
    const int row = threadIdx.x / kLanesOfToken;
    const int lane = threadIdx.x % kLanesOfToken;
    float own[kKeysOfLane];
    float largest = most;
    for (int k = 0; k < kKeysOfLane; ++k) {
      const int key = lane + k * kLanesOfToken;
      own[k] = first + key <= query ? scores.items[row][key] * scale : -INFINITY;
      largest = fmaxf(largest, own[k]);
    }
    largest = combine_lanes<kLanesOfToken>(largest, Larger{});
    const float fade = expf(most - largest);
    most = largest;
    float sum = 0;
    for (int k = 0; k < kKeysOfLane; ++k) {
      const float weight = expf(own[k] - most);
      round_to(weight, weights.items[row][lane + k * kLanesOfToken]);
      sum += weight;
    }
    total = total * fade + combine_lanes<kLanesOfToken>(sum, Add{});
    return fade;
  }
};

/// Block (x, head, sequence): a tile of queries, the last ones first, since they have the most
/// keys.
template <int kWidth, int kHead>
__global__ void __launch_bounds__(kTensorThreads)
    tensor_attention_kernel(const AttentionArrays<Bfloat16> a) {
  __shared__ TokenTile<kHead> queries;
  __shared__ TokenTile<kHead> keys;
  __shared__ TokenTile<kHead> values;
  __shared__ ScoreTile scores;
  __shared__ WeightTile weights;
  __shared__ float factors[kTokens];
  const int row = threadIdx.x / kLanesOfToken;
  const std::size_t query_tile = gridDim.x - 1 - blockIdx.x;
  const std::size_t first_query = query_tile * kTokens;
  const auto head = projected_head(a.projections, a.context, a.heads, a.head_size);
  const auto read = [&](const Bfloat16* from, std::size_t first, TokenTile<kHead>& to) {
    read_tokens<kWidth>(from, head.stride, first, a.context, a.head_size, to);
  };
  read(head.first, first_query, queries);
  int rows[Sums::num_elements];
  find_rows(scores, rows);
  TokenSums<kHead> sums;
  const auto multiply_by_factors = [&] {
    for (auto& part : sums.parts) {
      for (int i = 0; i < Sums::num_elements; ++i) part.x[i] *= factors[rows[i]];
    }
  };
  Softmax softmax;
  for (std::size_t tile = 0; tile <= query_tile; ++tile) {
    __syncthreads();  // all threads have finished with the last tile
    read(head.first + head.apart, tile * kTokens, keys);
    read(head.first + 2 * head.apart, tile * kTokens, values);
    __syncthreads();
    multiply_tokens(queries, keys, scores);
    __syncthreads();
    const float fade = softmax.add(scores, a.scale, first_query + row, tile * kTokens, weights);
    if (threadIdx.x % kLanesOfToken == 0) factors[row] = fade;
    __syncthreads();
    multiply_by_factors();
    sums.template add<ByRows>(weights, values);
  }
  __syncthreads();
  if (threadIdx.x % kLanesOfToken == 0) factors[row] = 1 / softmax.total;
  __syncthreads();
  multiply_by_factors();
  sums.write(1.0F, scores, first_query, a.context, a.head_size,
             output_head(a.output, a.context, a.heads, a.head_size));
  if (threadIdx.x % kLanesOfToken != 0 || first_query + row >= a.context) return;
  a.log_sum[(blockIdx.z * a.heads + blockIdx.y) * a.context + first_query + row] =
      softmax.most + logf(softmax.total);
}

}  // namespace trainer::cuda
