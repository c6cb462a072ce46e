// Batch normalisation: terms of column_sums_kernel, and functions of each_kernel on column sums and
// on elements.
#pragma once

#include "trainers/gpt2/cuda/kernels/sums.cuh"

namespace trainer::cuda {

/// Terms of a batch's variance.
template <typename T>
struct VarianceTerms {
  static constexpr int kSums = 1;
  const T* values;
  const float* mean;
  std::size_t columns;

  template <int kWidth>
  __device__ void at(std::size_t row, std::size_t column, float (&terms)[kSums][kWidth]) const {
    float middle[kWidth];
    load(values + row * columns + column, terms[0]);
    load(mean + column, middle);
    for (int i = 0; i < kWidth; ++i) {
      const float distance = terms[0][i] - middle[i];
      terms[0][i] = distance * distance;
    }
  }
};

/// Terms of the gradients of shift and scale.
template <typename T>
struct BatchNormTerms {
  static constexpr int kSums = 2;
  const T* input;
  const T* output_gradient;
  const float* mean;
  const float* inverse_deviation;
  std::size_t columns;

  template <int kWidth>
  __device__ void at(std::size_t row, std::size_t column, float (&terms)[kSums][kWidth]) const {
    float x[kWidth];
    float middle[kWidth];
    float inverse[kWidth];
    load(input + row * columns + column, x);
    load(output_gradient + row * columns + column, terms[0]);
    load(mean + column, middle);
    load(inverse_deviation + column, inverse);
    for (int i = 0; i < kWidth; ++i) terms[1][i] = terms[0][i] * ((x[i] - middle[i]) * inverse[i]);
  }
};

/// Returns the sum of a column over all chunks.
inline __device__ float sum_of_chunks(const float* partial, std::size_t chunks, std::size_t columns,
                                      std::size_t column) {
  float sum = 0;
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) sum += partial[chunk * columns + column];
  return sum;
}

struct BatchMeanEach {
  const float* partial;  ///< [chunks, columns]
  float* mean;
  std::size_t chunks;
  std::size_t columns;
  float rows;

  template <int kWidth>
  __device__ void at(std::size_t column) const {
    mean[column] = sum_of_chunks(partial, chunks, columns, column) / rows;
  }
};

/// Also updates the running statistics, unless momentum is 0.
struct BatchDeviationEach {
  const float* partial;  ///< [chunks, columns]
  const float* mean;
  float* inverse_deviation;
  float* running_mean;
  float* running_variance;
  std::size_t chunks;
  std::size_t columns;
  float rows;
  float epsilon;
  float momentum;

  template <int kWidth>
  __device__ void at(std::size_t column) const {
    const float squares = sum_of_chunks(partial, chunks, columns, column);
    inverse_deviation[column] = 1.0F / sqrtf(squares / rows + epsilon);
    if (momentum == 0) return;
    running_mean[column] += momentum * (mean[column] - running_mean[column]);
    running_variance[column] += momentum * (squares / (rows - 1) - running_variance[column]);
  }
};

struct RunningStatisticsEach {
  const float* running_mean;
  const float* running_variance;
  float* mean;
  float* inverse_deviation;
  float epsilon;

  template <int kWidth>
  __device__ void at(std::size_t column) const {
    mean[column] = running_mean[column];
    inverse_deviation[column] = 1.0F / sqrtf(running_variance[column] + epsilon);
  }
};

template <typename T>
struct NormaliseColumnsEach {
  const T* input;
  const T* scale;
  const T* shift;
  const float* mean;
  const float* inverse_deviation;
  T* output;
  std::size_t columns;

  template <int kWidth>
  __device__ void at(std::size_t first) const {
    const std::size_t column = first % columns;
    float x[kWidth];
    float factor[kWidth];
    float addend[kWidth];
    float middle[kWidth];
    float inverse[kWidth];
    load(input + first, x);
    load(scale + column, factor);
    load(shift + column, addend);
    load(mean + column, middle);
    load(inverse_deviation + column, inverse);
    for (int i = 0; i < kWidth; ++i) {
      x[i] = (x[i] - middle[i]) * inverse[i] * factor[i] + addend[i];
    }
    store(x, output + first);
  }
};

/// totals[i] = sum over all chunks of column i % columns of sum i / columns.
struct TotalsEach {
  const float* partial;  ///< [sums, chunks, columns]
  float* totals;         ///< [sums, columns]
  std::size_t chunks;
  std::size_t columns;

  template <int kWidth>
  __device__ void at(std::size_t i) const {
    const float* of_sum = partial + i / columns * chunks * columns;
    totals[i] = sum_of_chunks(of_sum, chunks, columns, i % columns);
  }
};

template <typename T>
struct BatchNormBackwardEach {
  const T* input;
  const T* scale;
  const float* mean;
  const float* inverse_deviation;
  const T* output_gradient;
  /// [2, columns]: sums of the gradient, and of its product with the normalised input
  const float* totals;
  T* input_gradient;
  std::size_t columns;
  float share;  ///< 1 / rows

  template <int kWidth>
  __device__ void at(std::size_t first) const {
    const std::size_t column = first % columns;
    float x[kWidth];
    float gradient[kWidth];
    float factor[kWidth];
    load(input + first, x);
    load(output_gradient + first, gradient);
    load(scale + column, factor);
    for (int i = 0; i < kWidth; ++i) {
      const std::size_t own = column + i;
      const float inverse = inverse_deviation[own];
      const float normalised = (x[i] - mean[own]) * inverse;
      const float mean_part = share * (totals[own] + normalised * totals[columns + own]);
      gradient[i] = factor[i] * inverse * (gradient[i] - mean_part);
    }
    store(gradient, input_gradient + first);
  }
};

}  // namespace trainer::cuda
