// Like launches.hpp, for attention. Tensor cores compute bfloat16; they would round float32, which
// is computed without them.
#pragma once

#include "trainers/gpt2/cuda/kernels/attention_backward.cuh"
#include "trainers/gpt2/cuda/kernels/tensor_attention.cuh"
#include "trainers/gpt2/cuda/kernels/tensor_attention_backward.cuh"
#include "trainers/gpt2/cuda/launches.hpp"

namespace trainer::cuda {

/// Size of a block's tiles: tokens per tile, and items of each lane that shares a token. Four tiles
/// must fit into 48 KiB.
template <int kTile, int kItems>
struct HeadShape {
  static constexpr int tile = kTile;
  static constexpr int items = kItems;
};

/// Calls `use` with the smallest shape for this head size, at most kHeadSizeMax.
template <typename Use>
cudaError_t with_head(std::size_t head_size, const Use& use) {
  if (head_size <= 2 * kShare) return use(HeadShape<32, 2>{});
  if (head_size <= 4 * kShare) return use(HeadShape<32, 4>{});
  if (head_size <= 8 * kShare) return use(HeadShape<32, 8>{});
  return head_size <= kHeadSizeMax ? use(HeadShape<16, 16>{}) : cudaErrorInvalidValue;
}

/// Like above for kernels on tensor cores, with the number of items per load.
template <typename Use, typename... Pointers>
cudaError_t with_tensor_head(std::size_t head_size, const Use& use, const Pointers*... arrays) {
  const auto with_head_of = [&](auto width) {
    if (head_size <= 32) return use(width, Width<32>{});
    if (head_size <= 64) return use(width, Width<64>{});
    return head_size <= kHeadSizeMax ? use(width, Width<128>{}) : cudaErrorInvalidValue;
  };
  return with_width<kPackWidth<Bfloat16>>(head_size, with_head_of, arrays...);
}

/// Returns the grid of kernels with one block per tile of tokens.
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
cudaError_t run_attention(const Attention& o, const AttentionArrays<float>& arrays,
                          const Launch& launch) {
  return with_head(o.head_size, [&](auto shape) {
    return launch(attention_kernel<shape.tile, shape.items, float>, grid_of(o, shape.tile),
                  dim3(shape.tile * kShare), arrays);
  });
}

template <typename Launch>
cudaError_t run_attention(const Attention& o, const AttentionArrays<Bfloat16>& arrays,
                          const Launch& launch) {
  const auto run = [&](auto width, auto head) {
    return launch(tensor_attention_kernel<width(), head()>, grid_of(o, kTokens),
                  dim3(kTensorThreads), arrays);
  };
  return with_tensor_head(o.head_size, run, arrays.projections);
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
    return run_attention(o, arrays, launch);
  });
}

template <typename Launch>
cudaError_t run_backward(const AttentionBackward& o, const AttentionBackwardArrays<float>& arrays,
                         const Launch& launch) {
  return with_head(o.head_size, [&](auto shape) {
    const dim3 grid = grid_of(o, shape.tile);
    const dim3 block(shape.tile * kShare);
    const cudaError_t error =
        launch(query_gradient_kernel<shape.tile, shape.items, float>, grid, block, arrays);
    if (error != cudaSuccess) return error;
    return launch(key_gradient_kernel<shape.tile, shape.items, float>, grid, block, arrays);
  });
}

template <typename Launch>
cudaError_t run_backward(const AttentionBackward& o,
                         const AttentionBackwardArrays<Bfloat16>& arrays, const Launch& launch) {
  const dim3 grid = grid_of(o, kTokens);
  const auto run = [&](auto width, auto head) {
    const cudaError_t error =
        launch(tensor_query_gradient_kernel<width(), head()>, grid, dim3(kTensorThreads), arrays);
    if (error != cudaSuccess) return error;
    return launch(tensor_key_gradient_kernel<width(), head()>, grid, dim3(kTensorThreads), arrays);
  };
  return with_tensor_head(o.head_size, run, arrays.projections, arrays.output_gradient);
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
    return error == cudaSuccess ? run_backward(o, arrays, launch) : error;
  });
}

}  // namespace trainer::cuda
