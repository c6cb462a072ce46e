// Layer normalisation: one warp per row, which is read several times, from the cache after the
// first. sums.cuh has the sums of weight gradients.
#pragma once

#include "trainers/gpt2/cuda/kernels/device.cuh"

namespace trainer::cuda {

template <typename T>
struct LayerNormArrays {
  const T* input;
  const T* addend;  ///< may be null
  T* sum;
  const T* weight;
  const T* bias;
  T* output;
  float* mean;
  float* inverse_deviation;
  std::size_t rows;
  std::size_t channels;
  float epsilon;
};

inline __device__ std::size_t own_row() {
  return std::size_t{blockIdx.x} * (kThreads / kLanes) + threadIdx.x / kLanes;
}

template <int kWidth>
inline __device__ std::size_t first_of_lane() {
  return threadIdx.x % kLanes * kWidth;
}

/// Returns the sum of term(x) over the row.
template <int kWidth, typename T, typename Term>
__device__ float sum_of_row(const T* row, std::size_t channels, const Term& term) {
  float sum = 0;
  for (auto at = first_of_lane<kWidth>(); at < channels; at += kLanes * kWidth) {
    float x[kWidth];
    load(row + at, x);
    for (int i = 0; i < kWidth; ++i) sum += term(x[i]);
  }
  return combine_lanes(sum, Add{});
}

/// total = left + right, rounded.
template <int kWidth, typename T>
__device__ void add_rows(const T* left, const T* right, T* total, std::size_t channels) {
  for (auto at = first_of_lane<kWidth>(); at < channels; at += kLanes * kWidth) {
    float x[kWidth];
    float y[kWidth];
    load(left + at, x);
    load(right + at, y);
    for (int i = 0; i < kWidth; ++i) x[i] += y[i];
    store(x, total + at);
  }
}

template <int kWidth, typename T>
__global__ void __launch_bounds__(kThreads) layer_norm_kernel(const LayerNormArrays<T> a) {
  const std::size_t row = own_row();
  if (row >= a.rows) return;
  const std::size_t begin = row * a.channels;
  const T* input = a.input + begin;
  if (a.addend != nullptr) {
    add_rows<kWidth>(input, a.addend + begin, a.sum + begin, a.channels);
    input = a.sum + begin;  // a lane reads the elements that it has written
  }
  const auto channels = static_cast<float>(a.channels);
  const float mean = sum_of_row<kWidth>(input, a.channels, [](float x) { return x; }) / channels;
  const float variance =
      sum_of_row<kWidth>(input, a.channels, [mean](float x) { return (x - mean) * (x - mean); }) /
      channels;
  const float inverse = 1.0F / sqrtf(variance + a.epsilon);
  for (auto at = first_of_lane<kWidth>(); at < a.channels; at += kLanes * kWidth) {
    float x[kWidth];
    float weight[kWidth];
    float bias[kWidth];
    load(input + at, x);
    load(a.weight + at, weight);
    load(a.bias + at, bias);
    for (int i = 0; i < kWidth; ++i) x[i] = (x[i] - mean) * inverse * weight[i] + bias[i];
    store(x, a.output + begin + at);
  }
  if (threadIdx.x % kLanes != 0) return;
  a.mean[row] = mean;
  a.inverse_deviation[row] = inverse;
}

template <typename T>
struct LayerNormBackwardArrays {
  const T* input;
  const T* weight;
  const float* mean;
  const float* inverse_deviation;
  const T* output_gradient;
  T* input_gradient;
  std::size_t rows;
  std::size_t channels;
};

/// Computes only the input's gradient: that of the normalised values, minus its mean and its
/// projection on these values, which normalisation removes.
template <int kWidth, typename T>
__global__ void __launch_bounds__(kThreads)
    layer_norm_backward_kernel(const LayerNormBackwardArrays<T> a) {
  const std::size_t row = own_row();
  if (row >= a.rows) return;
  const std::size_t begin = row * a.channels;
  const float mean = a.mean[row];
  const float inverse = a.inverse_deviation[row];
  float x[kWidth];
  float gradient[kWidth];
  float weight[kWidth];
  const auto read = [&](std::size_t at) {  // x: normalised; gradient: of x
    load(a.input + begin + at, x);
    load(a.output_gradient + begin + at, gradient);
    load(a.weight + at, weight);
    for (int i = 0; i < kWidth; ++i) {
      x[i] = (x[i] - mean) * inverse;
      gradient[i] *= weight[i];
    }
  };
  float sum = 0;
  float sum_along = 0;
  for (auto at = first_of_lane<kWidth>(); at < a.channels; at += kLanes * kWidth) {
    read(at);
    for (int i = 0; i < kWidth; ++i) {
      sum += gradient[i];
      sum_along += gradient[i] * x[i];
    }
  }
  const auto channels = static_cast<float>(a.channels);
  const float mean_gradient = combine_lanes(sum, Add{}) / channels;
  const float along = combine_lanes(sum_along, Add{}) / channels;
  for (auto at = first_of_lane<kWidth>(); at < a.channels; at += kLanes * kWidth) {
    read(at);
    float result[kWidth];
    load(a.input_gradient + begin + at, result);
    for (int i = 0; i < kWidth; ++i)
      result[i] += (gradient[i] - mean_gradient - x[i] * along) * inverse;
    store(result, a.input_gradient + begin + at);
  }
}

}  // namespace trainer::cuda
