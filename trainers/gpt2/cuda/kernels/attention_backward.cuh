// Backward pass of attention.cuh. Weights are recomputed from the scores and each query's log_sum.
// One kernel processes queries with their keys, another one keys with their queries: so each
// gradient is summed by one block, in a fixed order.
#pragma once

#include "trainers/gpt2/cuda/kernels/attention.cuh"

namespace trainer::cuda {

template <typename T>
struct AttentionBackwardArrays {
  const T* projections;
  const T* output;
  const float* log_sum;
  const T* output_gradient;
  T* projections_gradient;
  /// [sequences, heads, context]: dot product of each query's output and its gradient
  float* means;
  std::size_t context;
  std::size_t heads;
  std::size_t head_size;
  float scale;
};

/// One warp per query of each head; rows = sequences * context * heads, as in the output.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    attention_means_kernel(std::size_t rows, const AttentionBackwardArrays<T> a) {
  const std::size_t row = std::size_t{blockIdx.x} * (kThreads / kLanes) + threadIdx.x / kLanes;
  if (row >= rows) return;
  float sum = 0;
  for (std::size_t item = threadIdx.x % kLanes; item < a.head_size; item += kLanes) {
    const std::size_t at = row * a.head_size + item;
    sum += widened(a.output[at]) * widened(a.output_gradient[at]);
  }
  sum = combine_lanes(sum, Add{});
  const std::size_t head = row % a.heads;
  const std::size_t token = row / a.heads % a.context;
  const std::size_t sequence = row / a.heads / a.context;
  if (threadIdx.x % kLanes == 0) a.means[(sequence * a.heads + head) * a.context + token] = sum;
}

/// Weights of a tile, and gradients of its scores.
template <int kTile>
struct Slopes {
  float weights[kTile / kShare];
  float by_scores[kTile / kShare];
};

/// Computes them for one query and the lane's keys; `products` are the query times the keys,
/// `by_weights` the output's gradient times the values.
template <int kTile, typename T>
__device__ Slopes<kTile> differentiate(const AttentionBackwardArrays<T>& a, std::size_t query,
                                       std::size_t first_key,
                                       const float (&products)[kTile / kShare],
                                       const float (&by_weights)[kTile / kShare]) {
  const std::size_t at = (blockIdx.z * a.heads + blockIdx.y) * a.context + query;
  const bool is_there = query < a.context;
  const float log_sum = is_there ? a.log_sum[at] : 0.0F;
  const float mean = is_there ? a.means[at] : 0.0F;
  Slopes<kTile> slopes;
  for (int k = 0; k < kTile / kShare; ++k) {
    const bool is_seen = is_there && first_key + k * kShare <= query;
    slopes.weights[k] = is_seen ? expf(products[k] * a.scale - log_sum) : 0.0F;
    slopes.by_scores[k] = slopes.weights[k] * (by_weights[k] - mean);
  }
  return slopes;
}

/// Block (x, head, sequence): gradient of kTile queries, the last ones first.
template <int kTile, int kItems, typename T>
__global__ void __launch_bounds__(kTile* kShare)
    query_gradient_kernel(const AttentionBackwardArrays<T> a) {
  __shared__ Tile<kTile, kItems> queries;
  __shared__ Tile<kTile, kItems> keys;
  __shared__ Tile<kTile, kItems> values;
  __shared__ Tile<kTile, kItems> gradients;
  __shared__ float slopes[kTile][kTile + 1];
  const int row = threadIdx.x / kShare;
  const int share = threadIdx.x % kShare;
  const std::size_t query_tile = gridDim.x - 1 - blockIdx.x;
  const std::size_t query = query_tile * kTile + row;
  const auto head = projected_head(a.projections, a.context, a.heads, a.head_size);
  const auto gradient = output_head(a.output_gradient, a.context, a.heads, a.head_size);
  read_tile<kTile, kItems>(head.first, head.stride, query_tile * kTile, a.context, a.head_size,
                           queries);
  read_tile<kTile, kItems>(gradient.first, gradient.stride, query_tile * kTile, a.context,
                           a.head_size, gradients);
  float sums[kItems] = {};
  for (std::size_t tile = 0; tile <= query_tile; ++tile) {
    __syncthreads();  // all threads have finished with the last tile
    const std::size_t first = tile * kTile;
    read_tile<kTile, kItems>(head.first + head.apart, head.stride, first, a.context, a.head_size,
                             keys);
    read_tile<kTile, kItems>(head.first + 2 * head.apart, head.stride, first, a.context,
                             a.head_size, values);
    __syncthreads();
    float products[kTile / kShare];
    float by_weights[kTile / kShare];
    multiply_rows<kTile, kItems>(queries, keys, row, share, products);
    multiply_rows<kTile, kItems>(gradients, values, row, share, by_weights);
    const auto found = differentiate<kTile>(a, query, first + share, products, by_weights);
    for (int k = 0; k < kTile / kShare; ++k) slopes[row][share + k * kShare] = found.by_scores[k];
    __syncwarp();  // a query's slopes come from lanes of one warp
    for (int key = 0; key < kTile; ++key) {
      for (int k = 0; k < kItems; ++k) sums[k] += slopes[row][key] * keys[key][share + k * kShare];
    }
  }
  if (query >= a.context) return;
  const auto result = projected_head(a.projections_gradient, a.context, a.heads, a.head_size);
  write_items(sums, a.scale, share, a.head_size, result.first + query * result.stride);
}

/// Block (x, head, sequence): gradients of kTile keys and their values, the first ones first.
template <int kTile, int kItems, typename T>
__global__ void __launch_bounds__(kTile* kShare)
    key_gradient_kernel(const AttentionBackwardArrays<T> a) {
  __shared__ Tile<kTile, kItems> queries;
  __shared__ Tile<kTile, kItems> keys;
  __shared__ Tile<kTile, kItems> values;
  __shared__ Tile<kTile, kItems> gradients;
  __shared__ float weights[kTile][kTile + 1];
  __shared__ float slopes[kTile][kTile + 1];
  const int row = threadIdx.x / kShare;
  const int share = threadIdx.x % kShare;
  const std::size_t key_tile = blockIdx.x;
  const std::size_t first_key = key_tile * kTile;
  const auto head = projected_head(a.projections, a.context, a.heads, a.head_size);
  const auto gradient = output_head(a.output_gradient, a.context, a.heads, a.head_size);
  read_tile<kTile, kItems>(head.first + head.apart, head.stride, first_key, a.context, a.head_size,
                           keys);
  read_tile<kTile, kItems>(head.first + 2 * head.apart, head.stride, first_key, a.context,
                           a.head_size, values);
  float key_sums[kItems] = {};
  float value_sums[kItems] = {};
  for (std::size_t tile = key_tile; tile < gridDim.x; ++tile) {
    __syncthreads();  // all threads have finished with the last tile
    const std::size_t first = tile * kTile;
    read_tile<kTile, kItems>(head.first, head.stride, first, a.context, a.head_size, queries);
    read_tile<kTile, kItems>(gradient.first, gradient.stride, first, a.context, a.head_size,
                             gradients);
    __syncthreads();
    float products[kTile / kShare];
    float by_weights[kTile / kShare];
    multiply_rows<kTile, kItems>(queries, keys, row, share, products);
    multiply_rows<kTile, kItems>(gradients, values, row, share, by_weights);
    const auto found =
        differentiate<kTile>(a, first + row, first_key + share, products, by_weights);
    for (int k = 0; k < kTile / kShare; ++k) {
      weights[row][share + k * kShare] = found.weights[k];
      slopes[row][share + k * kShare] = found.by_scores[k];
    }
    __syncthreads();  // from here on, rows are keys
    for (int query = 0; query < kTile; ++query) {
      for (int k = 0; k < kItems; ++k) {
        key_sums[k] += slopes[query][row] * queries[query][share + k * kShare];
        value_sums[k] += weights[query][row] * gradients[query][share + k * kShare];
      }
    }
  }
  if (first_key + row >= a.context) return;
  const auto result = projected_head(a.projections_gradient, a.context, a.heads, a.head_size);
  auto* to = result.first + (first_key + row) * result.stride + result.apart;
  write_items(key_sums, a.scale, share, a.head_size, to);
  write_items(value_sums, 1.0F, share, a.head_size, to + result.apart);
}

}  // namespace trainer::cuda
