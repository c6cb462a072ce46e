// Like launches.hpp, for operations that sum over rows.
#pragma once

#include "trainers/gpt2/cuda/launches.hpp"

namespace trainer::cuda {

/// Writes the input of add_chunks() to `partial`.
template <typename Terms, typename Launch, typename... Arrays>
cudaError_t sum_columns(std::size_t rows, std::size_t columns, const Terms& terms, float* partial,
                        const Launch& launch, const Arrays*... arrays) {
  const auto run = [&](auto width) {
    const dim3 grid(blocks_for(columns, kLanes * width()), static_cast<unsigned>(chunks_of(rows)));
    return launch(column_sums_kernel<width(), Terms>, grid, dim3(kLanes, kRowsAtOnce), rows,
                  columns, rows_of_chunk(rows), terms, partial);
  };
  return with_width<4>(columns, run, arrays...);
}

template <typename Launch>
cudaError_t add_chunks(std::size_t chunks, std::size_t columns, const float* partial,
                       const Buffer& result, const Launch& launch) {
  return with_type(result.type, [&](auto type) {
    using Gradient = decltype(type);
    const AddChunksEach<Gradient> each{partial, values_of<Gradient>(result), chunks, columns};
    return for_each<1>(columns, each, launch);
  });
}

template <typename Launch>
cudaError_t start(const SumOfRows& o, void* workspace, const Launch& launch) {
  if (o.rows == 0 || o.columns == 0) return cudaSuccess;
  auto* partial = static_cast<float*>(workspace);
  const cudaError_t error = with_type(o.values.type, [&](auto type) {
    using T = decltype(type);
    const RowTerms<T> terms{values_of<T>(o.values), o.columns};
    return sum_columns(o.rows, o.columns, terms, partial, launch, terms.values);
  });
  if (error != cudaSuccess) return error;
  return add_chunks(chunks_of(o.rows), o.columns, partial, o.result, launch);
}

template <typename Launch>
cudaError_t start_input_gradient(const LayerNormBackward& o, const Launch& launch) {
  return with_type(o.input.type, [&](auto type) {
    using T = decltype(type);
    const LayerNormBackwardArrays<T> arrays{values_of<T>(o.input),
                                            values_of<T>(o.weight),
                                            values_of<float>(o.mean),
                                            values_of<float>(o.inverse_deviation),
                                            values_of<T>(o.output_gradient),
                                            values_of<T>(o.input_gradient),
                                            o.rows,
                                            o.channels};
    const auto run = [&](auto width) {
      return launch(layer_norm_backward_kernel<width(), T>,
                    dim3(blocks_for(o.rows, kThreads / kLanes)), dim3(kThreads), arrays);
    };
    return with_width<kPackWidth<T>>(o.channels, run, arrays.input, arrays.weight,
                                     arrays.output_gradient, arrays.input_gradient);
  });
}

template <typename Launch>
cudaError_t start(const LayerNormBackward& o, void* workspace, const Launch& launch) {
  if (o.rows == 0 || o.channels == 0) return cudaSuccess;
  cudaError_t error = start_input_gradient(o, launch);
  auto* partial = static_cast<float*>(workspace);
  const std::size_t chunks = chunks_of(o.rows);
  if (error == cudaSuccess) {
    error = with_type(o.input.type, [&](auto type) {
      using T = decltype(type);
      const LayerNormTerms<T> terms{values_of<T>(o.input), values_of<T>(o.output_gradient),
                                    values_of<float>(o.mean), values_of<float>(o.inverse_deviation),
                                    o.channels};
      return sum_columns(o.rows, o.channels, terms, partial, launch, terms.input,
                         terms.output_gradient);
    });
  }
  if (error == cudaSuccess)
    error = add_chunks(chunks, o.channels, partial, o.weight_gradient, launch);
  if (error != cudaSuccess) return error;
  return add_chunks(chunks, o.channels, partial + chunks * o.channels, o.bias_gradient, launch);
}

}  // namespace trainer::cuda
