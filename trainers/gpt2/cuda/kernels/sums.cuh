// Sums over an array and over its rows. The division of terms depends on the shape only, and no two
// threads add to the same address, so results are deterministic.
#pragma once

#include "trainers/gpt2/cuda/kernels/device.cuh"

namespace trainer::cuda {

/// For one block: adds the results of sum_pieces_kernel.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    add_partial_sums_kernel(unsigned count, const T* partial, T* total) {
  T sum = 0;
  for (unsigned i = threadIdx.x; i < count; i += kThreads) sum += partial[i];
  sum = combine_block(sum, T{0}, Add{});
  if (threadIdx.x == 0) *total += sum;
}

/// Terms of a bias gradient.
template <typename T>
struct RowTerms {
  static constexpr int kSums = 1;
  const T* values;
  std::size_t columns;

  template <int kWidth>
  __device__ void at(std::size_t row, std::size_t column, float (&terms)[kSums][kWidth]) const {
    load(values + row * columns + column, terms[0]);
  }
};

/// Terms of the gradients of a layer normalisation's weight and bias.
template <typename T>
struct LayerNormTerms {
  static constexpr int kSums = 2;
  const T* input;
  const T* output_gradient;
  const float* mean;
  const float* inverse_deviation;
  std::size_t columns;

  template <int kWidth>
  __device__ void at(std::size_t row, std::size_t column, float (&terms)[kSums][kWidth]) const {
    float x[kWidth];
    load(input + row * columns + column, x);
    load(output_gradient + row * columns + column, terms[1]);
    for (int i = 0; i < kWidth; ++i)
      terms[0][i] = terms[1][i] * (x[i] - mean[row]) * inverse_deviation[row];
  }
};

// rows per iteration of a block of column_sums_kernel, 32 lanes each
inline constexpr unsigned kRowsAtOnce = 8;

/// Block (x, y) sums the y-th chunk of rows, in its x-th part of the columns, to
/// partial [kSums, chunks, columns].
template <int kWidth, typename Terms>
__global__ void __launch_bounds__(kLanes* kRowsAtOnce)
    column_sums_kernel(std::size_t rows, std::size_t columns, std::size_t rows_of_chunk,
                       const Terms terms, float* partial) {
  __shared__ float parts[Terms::kSums][kRowsAtOnce][kLanes * kWidth];
  const std::size_t column = (std::size_t{blockIdx.x} * kLanes + threadIdx.x) * kWidth;
  const std::size_t begin = blockIdx.y * rows_of_chunk;
  const std::size_t end = begin + rows_of_chunk < rows ? begin + rows_of_chunk : rows;
  float sums[Terms::kSums][kWidth] = {};
  for (std::size_t row = begin + threadIdx.y; row < end && column < columns; row += kRowsAtOnce) {
    float term[Terms::kSums][kWidth];
    terms.template at<kWidth>(row, column, term);
    for (int sum = 0; sum < Terms::kSums; ++sum) {
      for (int i = 0; i < kWidth; ++i) sums[sum][i] += term[sum][i];
    }
  }
  for (int sum = 0; sum < Terms::kSums; ++sum) {
    for (int i = 0; i < kWidth; ++i)
      parts[sum][threadIdx.y][threadIdx.x * kWidth + i] = sums[sum][i];
  }
  __syncthreads();
  if (threadIdx.y > 0 || column >= columns) return;
  for (int sum = 0; sum < Terms::kSums; ++sum) {
    float* to = partial + (sum * gridDim.y + blockIdx.y) * columns + column;
    for (int i = 0; i < kWidth; ++i) {
      float total = 0;
      for (unsigned y = 0; y < kRowsAtOnce; ++y) total += parts[sum][y][threadIdx.x * kWidth + i];
      to[i] = total;
    }
  }
}

/// Adds the sums of all chunks to a gradient.
template <typename Gradient>
struct AddChunksEach {
  const float* partial;  ///< [chunks, columns]
  Gradient* result;
  std::size_t chunks;
  std::size_t columns;

  template <int kWidth>
  __device__ void at(std::size_t first) const {
    float sum[kWidth];
    load(result + first, sum);
    const auto values = [&](std::size_t chunk, float(&to)[kWidth]) {
      load(partial + chunk * columns + first, to);
    };
    add_in_order(chunks, values, sum);
    store(sum, result + first);
  }
};

}  // namespace trainer::cuda
