// Kernels and numbers of threads of each operation; arrays must have been checked. The caller
// launches kernels: launch(kernel, grid, block, arguments...). What kernels use must be included
// before this.
#pragma once

#include "trainers/gpt2/cuda/calls.hpp"
#include "trainers/gpt2/cuda/kernels/elementwise.cuh"
#include "trainers/gpt2/cuda/kernels/layer_norm.cuh"
#include "trainers/gpt2/cuda/kernels/sums.cuh"
#include "trainers/gpt2/cuda/kernels/tokens.cuh"
#include "trainers/gpt2/cuda/workspace.hpp"

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace trainer::cuda {

template <typename T>
T* values_of(const Buffer& buffer) {
  return static_cast<T*>(buffer.data);
}

inline unsigned blocks_for(std::size_t items, std::size_t items_of_block) {
  return static_cast<unsigned>((items + items_of_block - 1) / items_of_block);
}

/// Calls `use` with a value of the C++ type for `type`, float32 or bfloat16.
template <typename Use>
cudaError_t with_type(ddprun::DataType type, const Use& use) {
  return type == ddprun::DataType::bfloat16 ? use(Bfloat16{}) : use(float{});
}

template <int kWidth>
using Width = std::integral_constant<int, kWidth>;

/// Returns true if rows of this length can be moved in packs of kWidth in all arrays.
template <int kWidth, typename... Pointers>
bool can_be_wide(std::size_t row, const Pointers*... arrays) {
  const auto is_aligned = [](const auto* array) {
    return reinterpret_cast<std::uintptr_t>(array) % (sizeof(*array) * kWidth) == 0;
  };
  return row % kWidth == 0 && (is_aligned(arrays) && ...);
}

/// Calls `use` with Width<kWidth> if that is possible, otherwise with Width<1>.
template <int kWidth, typename Use, typename... Pointers>
cudaError_t with_width(std::size_t row, const Use& use, const Pointers*... arrays) {
  return can_be_wide<kWidth>(row, arrays...) ? use(Width<kWidth>{}) : use(Width<1>{});
}

template <int kWidth, typename Each, typename Launch>
cudaError_t for_each(std::size_t elements, const Each& each, const Launch& launch) {
  if (elements == 0) return cudaSuccess;
  return launch(each_kernel<kWidth, Each>, dim3(blocks_for(elements, kThreads * kWidth)),
                dim3(kThreads), elements, each);
}

template <typename Launch>
cudaError_t start(const MatrixProduct& o, void*, const Launch& launch) {
  if (o.bias.data == nullptr) return cudaSuccess;
  return with_type(o.result.type, [&](auto type) {
    using T = decltype(type);
    const FillRowsEach<T> each{values_of<T>(o.bias), values_of<T>(o.result), o.columns};
    const auto fill = [&](auto width) {
      return for_each<width()>(o.rows * o.columns, each, launch);
    };
    return with_width<kPackWidth<T>>(o.columns, fill, each.row, each.output);
  });
}

template <typename Launch>
cudaError_t start(const Gelu& o, void*, const Launch& launch) {
  return with_type(o.input.type, [&](auto type) {
    using T = decltype(type);
    const GeluEach<T> each{values_of<T>(o.input), values_of<T>(o.output)};
    const auto run = [&](auto width) { return for_each<width()>(o.elements, each, launch); };
    return with_width<kPackWidth<T>>(o.elements, run, each.input, each.output);
  });
}

template <typename Launch>
cudaError_t start(const GeluBackward& o, void*, const Launch& launch) {
  return with_type(o.input.type, [&](auto type) {
    using T = decltype(type);
    const GeluBackwardEach<T> each{values_of<T>(o.input), values_of<T>(o.output_gradient),
                                   values_of<T>(o.input_gradient)};
    const auto run = [&](auto width) { return for_each<width()>(o.elements, each, launch); };
    return with_width<kPackWidth<T>>(o.elements, run, each.input, each.output_gradient,
                                     each.input_gradient);
  });
}

template <typename Launch>
cudaError_t start(const Convert& o, void*, const Launch& launch) {
  return with_type(o.input.type, [&](auto from) {
    return with_type(o.output.type, [&](auto to) {
      const ConvertEach<decltype(from), decltype(to)> each{values_of<decltype(from)>(o.input),
                                                           values_of<decltype(to)>(o.output)};
      const auto run = [&](auto width) { return for_each<width()>(o.elements, each, launch); };
      return with_width<4>(o.elements, run, each.input, each.output);
    });
  });
}

template <typename Launch>
cudaError_t start(const Embedding& o, void*, const Launch& launch) {
  return with_type(o.output.type, [&](auto type) {
    using T = decltype(type);
    const EmbeddingEach<T> each{values_of<int>(o.tokens),
                                values_of<T>(o.token_table),
                                values_of<T>(o.position_table),
                                values_of<T>(o.output),
                                o.context,
                                o.channels};
    const auto run = [&](auto width) {
      return for_each<width()>(o.rows * o.channels, each, launch);
    };
    return with_width<kPackWidth<T>>(o.channels, run, each.token_table, each.position_table,
                                     each.output);
  });
}

template <typename Launch>
cudaError_t start(const EmbeddingBackward& o, void*, const Launch& launch) {
  if (o.rows == 0) return cudaSuccess;
  const auto run = [&](auto type, auto gradient_type, auto position_type) {
    using T = decltype(type);
    using Gradient = decltype(gradient_type);
    using PositionGradient = decltype(position_type);
    const auto* gradient = values_of<const T>(o.output_gradient);
    const dim3 grid(static_cast<unsigned>(o.rows), blocks_for(o.channels, kChannelsPerBlock));
    const cudaError_t error =
        launch(token_gradient_kernel<T, Gradient>, grid, dim3(kThreads), o.rows, std::size_t{1},
               o.channels, values_of<const int>(o.tokens), gradient,
               values_of<Gradient>(o.token_gradient));
    if (error != cudaSuccess) return error;
    const PositionGradientEach<T, PositionGradient> each{
        gradient, values_of<PositionGradient>(o.position_gradient), o.rows / o.context,
        o.context * o.channels};
    const auto add = [&](auto width) {
      return for_each<width()>(o.context * o.channels, each, launch);
    };
    return with_width<4>(o.channels, add, each.output_gradient, each.position_gradient);
  };
  return with_type(o.output_gradient.type, [&](auto type) {
    return with_type(o.token_gradient.type, [&](auto gradient) {
      return with_type(o.position_gradient.type,
                       [&](auto position) { return run(type, gradient, position); });
    });
  });
}

template <typename Launch>
cudaError_t start(const CrossEntropy& o, void*, const Launch& launch) {
  if (o.rows == 0) return cudaSuccess;
  return with_type(o.logits.type, [&](auto type) {
    using T = decltype(type);
    const CrossEntropyArrays<T> arrays{values_of<T>(o.logits),
                                       values_of<int>(o.targets),
                                       values_of<float>(o.losses),
                                       o.columns,
                                       o.classes,
                                       static_cast<float>(o.gradient_scale)};
    const auto run = [&](auto width) {
      return launch(cross_entropy_kernel<width(), T>, dim3(static_cast<unsigned>(o.rows)),
                    dim3(kCrossEntropyThreads), arrays);
    };
    return with_width<kPackWidth<T>>(o.columns, run, arrays.logits);
  });
}

template <typename Launch>
cudaError_t start(const LayerNorm& o, void*, const Launch& launch) {
  if (o.rows == 0) return cudaSuccess;
  return with_type(o.input.type, [&](auto type) {
    using T = decltype(type);
    const LayerNormArrays<T> arrays{values_of<T>(o.input),
                                    values_of<T>(o.addend),
                                    values_of<T>(o.sum),
                                    values_of<T>(o.weight),
                                    values_of<T>(o.bias),
                                    values_of<T>(o.output),
                                    values_of<float>(o.mean),
                                    values_of<float>(o.inverse_deviation),
                                    o.rows,
                                    o.channels,
                                    static_cast<float>(kLayerNormEpsilon)};
    const auto run = [&](auto width) {
      return launch(layer_norm_kernel<width(), T>, dim3(blocks_for(o.rows, kThreads / kLanes)),
                    dim3(kThreads), arrays);
    };
    return with_width<kPackWidth<T>>(o.channels, run, arrays.input, arrays.addend, arrays.sum,
                                     arrays.weight, arrays.bias, arrays.output);
  });
}

}  // namespace trainer::cuda
