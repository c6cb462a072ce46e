// Like launches.hpp, for further operations of small networks: bags of embeddings, activations,
// batch normalisation and squared errors.
#pragma once

#include "trainers/gpt2/cuda/kernels/batch_norm.cuh"
#include "trainers/gpt2/cuda/kernels/squared_error.cuh"
#include "trainers/gpt2/cuda/sum_launches.hpp"

namespace trainer::cuda {

template <typename Use>
cudaError_t with_function(ActivationFunction function, const Use& use) {
  return function == ActivationFunction::relu ? use(Relu{}) : use(Sigmoid{});
}

template <typename Launch>
cudaError_t start(const EmbeddingBag& o, void*, const Launch& launch) {
  return with_type(o.output.type, [&](auto type) {
    using T = decltype(type);
    const EmbeddingBagEach<T> each{values_of<int>(o.tokens), values_of<T>(o.table),
                                   values_of<T>(o.output), o.bag, o.channels};
    const auto run = [&](auto width) {
      return for_each<width()>(o.rows * o.channels, each, launch);
    };
    return with_width<kPackWidth<T>>(o.channels, run, each.table, each.output);
  });
}

template <typename Launch>
cudaError_t start(const EmbeddingBagBackward& o, void*, const Launch& launch) {
  const std::size_t tokens = o.rows * o.bag;
  if (tokens == 0) return cudaSuccess;
  return with_type(o.output_gradient.type, [&](auto type) {
    return with_type(o.table_gradient.type, [&](auto gradient_type) {
      using T = decltype(type);
      using Gradient = decltype(gradient_type);
      const dim3 grid(static_cast<unsigned>(tokens), blocks_for(o.channels, kChannelsPerBlock));
      return launch(token_gradient_kernel<T, Gradient>, grid, dim3(kThreads), tokens, o.bag,
                    o.channels, values_of<const int>(o.tokens),
                    values_of<const T>(o.output_gradient), values_of<Gradient>(o.table_gradient));
    });
  });
}

template <typename Launch>
cudaError_t start(const Activation& o, void*, const Launch& launch) {
  return with_type(o.input.type, [&](auto type) {
    return with_function(o.function, [&](auto function) {
      using T = decltype(type);
      const ActivationEach<T, decltype(function)> each{values_of<T>(o.input),
                                                       values_of<T>(o.output)};
      const auto run = [&](auto width) { return for_each<width()>(o.elements, each, launch); };
      return with_width<kPackWidth<T>>(o.elements, run, each.input, each.output);
    });
  });
}

template <typename Launch>
cudaError_t start(const ActivationBackward& o, void*, const Launch& launch) {
  return with_type(o.output.type, [&](auto type) {
    return with_function(o.function, [&](auto function) {
      using T = decltype(type);
      const ActivationBackwardEach<T, decltype(function)> each{
          values_of<T>(o.output), values_of<T>(o.output_gradient), values_of<T>(o.input_gradient)};
      const auto run = [&](auto width) { return for_each<width()>(o.elements, each, launch); };
      return with_width<kPackWidth<T>>(o.elements, run, each.output, each.output_gradient,
                                       each.input_gradient);
    });
  });
}

template <typename Launch>
cudaError_t start(const MeanSquaredError& o, void*, const Launch& launch) {
  if (o.rows == 0) return cudaSuccess;
  return with_type(o.output.type, [&](auto type) {
    using T = decltype(type);
    const SquaredErrorArrays<T> arrays{values_of<T>(o.output),
                                       values_of<float>(o.targets),
                                       values_of<float>(o.losses),
                                       o.rows,
                                       o.columns,
                                       static_cast<float>(o.gradient_scale)};
    const auto run = [&](auto width) {
      return launch(squared_error_kernel<width(), T>, dim3(blocks_for(o.rows, kThreads / kLanes)),
                    dim3(kThreads), arrays);
    };
    return with_width<4>(o.columns, run, arrays.output, arrays.targets);
  });
}

/// Computes mean and inverse_deviation of the batch, and updates the running statistics.
template <typename T, typename Launch>
cudaError_t measure_batch(const BatchNorm& o, float* partial, const Launch& launch) {
  auto* mean = values_of<float>(o.mean);
  const std::size_t chunks = chunks_of(o.rows);
  const auto rows = static_cast<float>(o.rows);
  const RowTerms<T> terms{values_of<T>(o.input), o.columns};
  cudaError_t error = sum_columns(o.rows, o.columns, terms, partial, launch, terms.values);
  if (error == cudaSuccess)
    error = for_each<1>(o.columns, BatchMeanEach{partial, mean, chunks, o.columns, rows}, launch);
  if (error != cudaSuccess) return error;
  const VarianceTerms<T> squares{terms.values, mean, o.columns};
  error = sum_columns(o.rows, o.columns, squares, partial, launch, squares.values, squares.mean);
  if (error != cudaSuccess) return error;
  const BatchDeviationEach each{partial,
                                mean,
                                values_of<float>(o.inverse_deviation),
                                values_of<float>(o.running_mean),
                                values_of<float>(o.running_variance),
                                chunks,
                                o.columns,
                                rows,
                                static_cast<float>(kBatchNormEpsilon),
                                o.rows < 2 ? 0.0F : static_cast<float>(kBatchNormMomentum)};
  return for_each<1>(o.columns, each, launch);
}

template <typename Launch>
cudaError_t take_running_statistics(const BatchNorm& o, const Launch& launch) {
  const RunningStatisticsEach each{values_of<float>(o.running_mean),
                                   values_of<float>(o.running_variance), values_of<float>(o.mean),
                                   values_of<float>(o.inverse_deviation),
                                   static_cast<float>(kBatchNormEpsilon)};
  return for_each<1>(o.columns, each, launch);
}

template <typename Launch>
cudaError_t start(const BatchNorm& o, void* workspace, const Launch& launch) {
  if (o.rows == 0 || o.columns == 0) return cudaSuccess;
  return with_type(o.input.type, [&](auto type) {
    using T = decltype(type);
    const cudaError_t error = o.trains ? measure_batch<T>(o, static_cast<float*>(workspace), launch)
                                       : take_running_statistics(o, launch);
    if (error != cudaSuccess) return error;
    const NormaliseColumnsEach<T> each{values_of<T>(o.input),
                                       values_of<T>(o.scale),
                                       values_of<T>(o.shift),
                                       values_of<float>(o.mean),
                                       values_of<float>(o.inverse_deviation),
                                       values_of<T>(o.output),
                                       o.columns};
    const auto run = [&](auto width) {
      return for_each<width()>(o.rows * o.columns, each, launch);
    };
    return with_width<4>(o.columns, run, each.input, each.scale, each.shift, each.mean,
                         each.inverse_deviation, each.output);
  });
}

template <typename T, typename Launch>
cudaError_t start_input_gradient(const BatchNormBackward& o, const float* totals,
                                 const Launch& launch) {
  const BatchNormBackwardEach<T> each{
      values_of<T>(o.input),           values_of<T>(o.scale),
      values_of<float>(o.mean),        values_of<float>(o.inverse_deviation),
      values_of<T>(o.output_gradient), totals,
      values_of<T>(o.input_gradient),  o.columns,
      1 / static_cast<float>(o.rows)};
  const auto run = [&](auto width) { return for_each<width()>(o.rows * o.columns, each, launch); };
  return with_width<4>(o.columns, run, each.input, each.scale, each.output_gradient,
                       each.input_gradient);
}

/// Sums are separate from those of earlier passes, which the input's gradient must not include.
template <typename Launch>
cudaError_t start(const BatchNormBackward& o, void* workspace, const Launch& launch) {
  if (o.rows == 0 || o.columns == 0) return cudaSuccess;
  auto* partial = static_cast<float*>(workspace);
  const std::size_t chunks = chunks_of(o.rows);
  float* totals = partial + 2 * chunks * o.columns;
  return with_type(o.input.type, [&](auto type) {
    using T = decltype(type);
    const BatchNormTerms<T> terms{values_of<T>(o.input), values_of<T>(o.output_gradient),
                                  values_of<float>(o.mean), values_of<float>(o.inverse_deviation),
                                  o.columns};
    cudaError_t error = sum_columns(o.rows, o.columns, terms, partial, launch, terms.input,
                                    terms.output_gradient, terms.mean, terms.inverse_deviation);
    if (error == cudaSuccess)
      error = for_each<1>(2 * o.columns, TotalsEach{partial, totals, chunks, o.columns}, launch);
    if (error == cudaSuccess) error = add_chunks(1, o.columns, totals, o.shift_gradient, launch);
    if (error == cudaSuccess)
      error = add_chunks(1, o.columns, totals + o.columns, o.scale_gradient, launch);
    return error == cudaSuccess ? start_input_gradient<T>(o, totals, launch) : error;
  });
}

}  // namespace trainer::cuda
