// Causal self-attention without storing scores (Dao et al., 2022): a block processes some queries
// of one head with all keys and values, tile by tile, and keeps the softmax's sums relative to the
// largest score so far (Milakov and Gimelshein, 2018). Any head size up to kHeadSizeMax.
//
// Eight neighbouring lanes share a query: each has every eighth key of a tile, and every eighth
// item of the output.
#pragma once

#include "trainers/gpt2/cuda/kernels/device.cuh"

namespace trainer::cuda {

inline constexpr int kShare = 8;  // lanes per query
inline constexpr std::size_t kHeadSizeMax = 128;

template <typename T>
struct AttentionArrays {
  const T* projections;  ///< [sequences, context, 3, heads, head size]
  T* output;             ///< [sequences, context, heads, head size]
  float* log_sum;        ///< [sequences, heads, context]
  std::size_t context;
  std::size_t heads;
  std::size_t head_size;
  float scale;  ///< factor of the scores
};

/// The head and sequence of a block: blockIdx.y and .z.
template <typename T>
struct HeadPlace {
  T* first;            ///< start of the queries, for projections
  std::size_t apart;   ///< elements between a token's queries, keys and values
  std::size_t stride;  ///< elements between tokens
};

template <typename T>
__device__ HeadPlace<T> projected_head(T* projections, std::size_t context, std::size_t heads,
                                       std::size_t head_size) {
  const std::size_t channels = heads * head_size;
  return {projections + blockIdx.z * context * 3 * channels + blockIdx.y * head_size, channels,
          3 * channels};
}

template <typename T>
__device__ HeadPlace<T> output_head(T* output, std::size_t context, std::size_t heads,
                                    std::size_t head_size) {
  const std::size_t channels = heads * head_size;
  return {output + blockIdx.z * context * channels + blockIdx.y * head_size, 0, channels};
}

/// Tokens in shared memory. Rows have one additional item to avoid bank conflicts.
template <int kTile, int kItems>
using Tile = float[kTile][kItems * kShare + 1];

/// Loads tokens from `first` on; zeros beyond the end.
template <int kTile, int kItems, typename T>
__device__ void read_tile(const T* from, std::size_t stride, std::size_t first, std::size_t context,
                          std::size_t head_size, Tile<kTile, kItems>& to) {
  constexpr int kWidth = kItems * kShare;
  for (int i = threadIdx.x; i < kTile * kWidth; i += kTile * kShare) {
    const int row = i / kWidth;
    const int item = i % kWidth;
    const bool is_there = first + row < context && item < static_cast<int>(head_size);
    to[row][item] = is_there ? widened(from[(first + row) * stride + item]) : 0.0F;
  }
}

/// Products of row `row` of the left tile with every eighth row of the right one.
template <int kTile, int kItems>
__device__ void multiply_rows(const Tile<kTile, kItems>& left, const Tile<kTile, kItems>& right,
                              int row, int share, float (&products)[kTile / kShare]) {
  for (int k = 0; k < kTile / kShare; ++k) products[k] = 0;
  for (int item = 0; item < kItems * kShare; ++item) {
    const float factor = left[row][item];
    for (int k = 0; k < kTile / kShare; ++k)
      products[k] += factor * right[share + k * kShare][item];
  }
}

/// Writes the lane's items of a row from `sums` to memory.
template <int kItems, typename T>
__device__ void write_items(const float (&sums)[kItems], float factor, int share,
                            std::size_t head_size, T* to) {
  for (int k = 0; k < kItems; ++k) {
    const std::size_t item = share + k * kShare;
    if (item < head_size) round_to(sums[k] * factor, to[item]);
  }
}

/// Block (x, head, sequence): kTile queries, the last ones first, since they have the most keys.
template <int kTile, int kItems, typename T>
__global__ void __launch_bounds__(kTile* kShare) attention_kernel(const AttentionArrays<T> a) {
  __shared__ Tile<kTile, kItems> queries;
  __shared__ Tile<kTile, kItems> keys;
  __shared__ Tile<kTile, kItems> values;
  __shared__ float weights[kTile][kTile + 1];
  const int row = threadIdx.x / kShare;
  const int share = threadIdx.x % kShare;
  const std::size_t query_tile = gridDim.x - 1 - blockIdx.x;
  const std::size_t query = query_tile * kTile + row;
  const auto head = projected_head(a.projections, a.context, a.heads, a.head_size);
  read_tile<kTile, kItems>(head.first, head.stride, query_tile * kTile, a.context, a.head_size,
                           queries);
  float most = -INFINITY;
  float total = 0;
  float sums[kItems] = {};
  for (std::size_t tile = 0; tile <= query_tile; ++tile) {
    __syncthreads();  // all threads have finished with the last tile
    const std::size_t first = tile * kTile;
    read_tile<kTile, kItems>(head.first + head.apart, head.stride, first, a.context, a.head_size,
                             keys);
    read_tile<kTile, kItems>(head.first + 2 * head.apart, head.stride, first, a.context,
                             a.head_size, values);
    __syncthreads();
    float scores[kTile / kShare];
    multiply_rows<kTile, kItems>(queries, keys, row, share, scores);
    float largest = most;
    for (int k = 0; k < kTile / kShare; ++k) {
      scores[k] = first + share + k * kShare <= query ? scores[k] * a.scale : -INFINITY;
      largest = fmaxf(largest, scores[k]);
    }
    largest = combine_lanes<kShare>(largest, Larger{});  // each query has a tile's first key
    const float fade = expf(most - largest);
    most = largest;
    float sum = 0;
    for (int k = 0; k < kTile / kShare; ++k) {
      const float weight = expf(scores[k] - most);
      weights[row][share + k * kShare] = weight;
      sum += weight;
    }
    total = total * fade + combine_lanes<kShare>(sum, Add{});
    for (int k = 0; k < kItems; ++k) sums[k] *= fade;
    __syncwarp();  // a query's weights come from lanes of one warp
    for (int key = 0; key < kTile; ++key) {
      for (int k = 0; k < kItems; ++k)
        sums[k] += weights[row][key] * values[key][share + k * kShare];
    }
  }
  if (query >= a.context) return;
  const auto output = output_head(a.output, a.context, a.heads, a.head_size);
  write_items(sums, 1 / total, share, a.head_size, output.first + query * output.stride);
  if (share == 0)
    a.log_sum[(blockIdx.z * a.heads + blockIdx.y) * a.context + query] = most + logf(total);
}

}  // namespace trainer::cuda
