// As launches.hpp, for attention.
#pragma once

#include "trainers/compute/cuda/kernels/attention_backward.cuh"
#include "trainers/compute/cuda/launches.hpp"

namespace trainer::cuda {

/// How a block holds tokens: so many of them, of so many items for each of the lanes that share
/// one. Four tiles of them must fit into 48 KiB.
template <int kTile, int kItems>
struct HeadShape {
  static constexpr int tile = kTile;
  static constexpr int items = kItems;
};

/// Calls with the smallest shape that such a head fits into. None is wider than kHeadSizeMax.
template <typename Use>
cudaError_t with_head(std::size_t head_size, const Use& use) {
  if (head_size <= 2 * kShare) return use(HeadShape<32, 2>{});
  if (head_size <= 4 * kShare) return use(HeadShape<32, 4>{});
  if (head_size <= 8 * kShare) return use(HeadShape<32, 8>{});
  return head_size <= kHeadSizeMax ? use(HeadShape<16, 16>{}) : cudaErrorInvalidValue;
}

/// The blocks for kernels that take a tile of the tokens each.
template <typename Operation>
dim3 grid_of(const Operation& o, int tile) {
  return {blocks_for(o.context, static_cast<std::size_t>(tile)), static_cast<unsigned>(o.heads),
          static_cast<unsigned>(o.sequences)};
}

template <typename Operation>
bool is_empty(const Operation& o) {
  return o.sequences == 0 || o.context == 0 || o.heads == 0 || o.head_size == 0;
}

template <typename Operation>
float score_scale(const Operation& o) {
  return 1 / std::sqrt(static_cast<float>(o.head_size));
}

template <typename Launch>
cudaError_t start(const Attention& o, void*, const Launch& launch) {
  if (is_empty(o)) return cudaSuccess;
  return with_type(o.projections.type, [&](auto type) {
    using T = decltype(type);
    const AttentionArrays<T> arrays{values_of<T>(o.projections),
                                    values_of<T>(o.output),
                                    values_of<float>(o.log_sum),
                                    o.context,
                                    o.heads,
                                    o.head_size,
                                    score_scale(o)};
    return with_head(o.head_size, [&](auto shape) {
      return launch(attention_kernel<shape.tile, shape.items, T>, grid_of(o, shape.tile),
                    dim3(shape.tile * kShare), arrays);
    });
  });
}

template <typename Launch>
cudaError_t start(const AttentionBackward& o, void* workspace, const Launch& launch) {
  if (is_empty(o)) return cudaSuccess;
  return with_type(o.projections.type, [&](auto type) {
    using T = decltype(type);
    const AttentionBackwardArrays<T> arrays{values_of<T>(o.projections),
                                            values_of<T>(o.output),
                                            values_of<float>(o.log_sum),
                                            values_of<T>(o.output_gradient),
                                            values_of<T>(o.projections_gradient),
                                            static_cast<float*>(workspace),
                                            o.context,
                                            o.heads,
                                            o.head_size,
                                            score_scale(o)};
    const std::size_t rows = o.sequences * o.context * o.heads;
    const cudaError_t error =
        launch(attention_means_kernel<T>, dim3(blocks_for(rows, kThreads / kLanes)), dim3(kThreads),
               rows, arrays);
    if (error != cudaSuccess) return error;
    return with_head(o.head_size, [&](auto shape) {
      const dim3 grid = grid_of(o, shape.tile);
      const dim3 block(shape.tile * kShare);
      const cudaError_t first =
          launch(query_gradient_kernel<shape.tile, shape.items, T>, grid, block, arrays);
      if (first != cudaSuccess) return first;
      return launch(key_gradient_kernel<shape.tile, shape.items, T>, grid, block, arrays);
    });
  });
}

}  // namespace trainer::cuda
