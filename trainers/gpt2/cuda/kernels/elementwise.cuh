// Elementwise operations, for each_kernel.
#pragma once

#include "trainers/gpt2/cuda/kernels/device.cuh"

namespace trainer::cuda {

inline constexpr float kGeluFactor = 0.79788456F;  // sqrt(2 / pi)
inline constexpr float kGeluCubic = 0.044715F;

/// Hyperbolic tangent of GELU's argument, 1 - 2 / (e^2x + 1).
inline __device__ float gelu_bend(float x) {
  return 1.0F - 2.0F / (expf(2 * kGeluFactor * (x + kGeluCubic * x * x * x)) + 1.0F);
}

template <typename T>
struct GeluEach {
  const T* input;
  T* output;

  template <int kWidth>
  __device__ void at(std::size_t first) const {
    float x[kWidth];
    load(input + first, x);
    for (int i = 0; i < kWidth; ++i) x[i] = 0.5F * x[i] * (1 + gelu_bend(x[i]));
    store(x, output + first);
  }
};

template <typename T>
struct GeluBackwardEach {
  const T* input;
  const T* output_gradient;
  T* input_gradient;

  template <int kWidth>
  __device__ void at(std::size_t first) const {
    float x[kWidth];
    float gradient[kWidth];
    load(input + first, x);
    load(output_gradient + first, gradient);
    for (int i = 0; i < kWidth; ++i) {
      const float bend = gelu_bend(x[i]);
      const float slope = kGeluFactor * (1 + 3 * kGeluCubic * x[i] * x[i]);
      gradient[i] *= 0.5F * (1 + bend + x[i] * (1 - bend * bend) * slope);
    }
    store(gradient, input_gradient + first);
  }
};

struct Relu {
  static __device__ float value(float x) { return x < 0 ? 0.0F : x; }
  /// Derivative as a function of the value.
  static __device__ float slope(float value) { return value > 0 ? 1.0F : 0.0F; }
};

struct Sigmoid {
  static __device__ float value(float x) { return 1.0F / (1.0F + expf(-x)); }
  static __device__ float slope(float value) { return value * (1 - value); }
};

template <typename T, typename Function>
struct ActivationEach {
  const T* input;
  T* output;

  template <int kWidth>
  __device__ void at(std::size_t first) const {
    float x[kWidth];
    load(input + first, x);
    for (int i = 0; i < kWidth; ++i) x[i] = Function::value(x[i]);
    store(x, output + first);
  }
};

template <typename T, typename Function>
struct ActivationBackwardEach {
  const T* output;
  const T* output_gradient;
  T* input_gradient;

  template <int kWidth>
  __device__ void at(std::size_t first) const {
    float value[kWidth];
    float gradient[kWidth];
    load(output + first, value);
    load(output_gradient + first, gradient);
    for (int i = 0; i < kWidth; ++i) gradient[i] *= Function::slope(value[i]);
    store(gradient, input_gradient + first);
  }
};

/// Copies `row` to each row of the output.
template <typename T>
struct FillRowsEach {
  const T* row;
  T* output;
  std::size_t columns;

  template <int kWidth>
  __device__ void at(std::size_t first) const {
    float values[kWidth];
    load(row + first % columns, values);
    store(values, output + first);
  }
};

template <typename From, typename To>
struct ConvertEach {
  const From* input;
  To* output;

  template <int kWidth>
  __device__ void at(std::size_t first) const {
    float values[kWidth];
    load(input + first, values);
    store(values, output + first);
  }
};

template <typename T>
struct EmbeddingEach {
  const int* tokens;
  const T* token_table;
  const T* position_table;
  T* output;
  std::size_t context;
  std::size_t channels;

  template <int kWidth>
  __device__ void at(std::size_t first) const {
    const std::size_t row = first / channels;
    const std::size_t channel = first - row * channels;
    float meaning[kWidth];
    float position[kWidth];
    load(token_table + static_cast<std::size_t>(tokens[row]) * channels + channel, meaning);
    load(position_table + row % context * channels + channel, position);
    for (int i = 0; i < kWidth; ++i) meaning[i] += position[i];
    store(meaning, output + first);
  }
};

template <typename T>
struct EmbeddingBagEach {
  const int* tokens;
  const T* table;
  T* output;
  std::size_t bag;
  std::size_t channels;

  template <int kWidth>
  __device__ void at(std::size_t first) const {
    const std::size_t row = first / channels;
    const std::size_t channel = first - row * channels;
    float sum[kWidth] = {};
    for (std::size_t k = 0; k < bag; ++k) {
      float meaning[kWidth];
      load(table + static_cast<std::size_t>(tokens[row * bag + k]) * channels + channel, meaning);
      for (int i = 0; i < kWidth; ++i) sum[i] += meaning[i];
    }
    store(sum, output + first);
  }
};

/// Adds the gradients of all sequences at each position.
template <typename T, typename Gradient>
struct PositionGradientEach {
  const T* output_gradient;
  Gradient* position_gradient;
  std::size_t sequences;
  std::size_t stride;  ///< elements per sequence

  template <int kWidth>
  __device__ void at(std::size_t first) const {
    float sum[kWidth] = {};
    for (std::size_t i = 0; i < sequences; ++i) {
      float values[kWidth];
      load(output_gradient + i * stride + first, values);
      for (int k = 0; k < kWidth; ++k) sum[k] += values[k];
    }
    float before[kWidth];
    load(position_gradient + first, before);
    for (int k = 0; k < kWidth; ++k) sum[k] += before[k];
    store(sum, position_gradient + first);
  }
};

/// Factors of AdamW that are equal for all elements. A pace, if any, replaces the first two.
struct AdamWFactors {
  float rate;
  float inverse_correction;
  float beta1;
  float beta2;
  float epsilon;
  float norm_max;              ///< 0: no clipping
  const double* squared_norm;  ///< on the device
  const AdamWPace* pace;       ///< on the device, or null
  double decay;                ///< learning rate * weight decay; with a pace, only the weight decay

  __device__ AdamWFactors at_pace() const {
    AdamWFactors factors = *this;
    if (pace == nullptr) return factors;
    factors.rate = static_cast<float>(pace->rate);
    factors.inverse_correction = static_cast<float>(pace->inverse_correction);
    factors.decay = pace->learning_rate * decay;
    return factors;
  }
};

/// `master` equals `values` if these are float32.
template <typename T, typename Gradient>
struct AdamWEach {
  T* values;
  float* master;
  const Gradient* gradient;
  float* mean;
  float* square;
  AdamWFactors factors;

  template <int kWidth>
  __device__ void at(std::size_t first) const {
    const AdamWFactors f = factors.at_pace();
    const auto keep = static_cast<float>(1 - f.decay);
    float clip = 1;
    if (f.norm_max > 0) {
      constexpr float kNoDivisionByZero = 1e-6F;  // PyTorch's
      const float norm = sqrtf(static_cast<float>(*f.squared_norm));
      clip = fminf(1.0F, f.norm_max / (norm + kNoDivisionByZero));
    }
    float value[kWidth];
    float slope[kWidth];
    float m[kWidth];
    float s[kWidth];
    load(master + first, value);
    load(gradient + first, slope);
    load(mean + first, m);
    load(square + first, s);
    for (int i = 0; i < kWidth; ++i) {
      slope[i] *= clip;
      m[i] += (1 - f.beta1) * (slope[i] - m[i]);
      s[i] = f.beta2 * s[i] + (1 - f.beta2) * slope[i] * slope[i];
      value[i] = keep * value[i] - f.rate * m[i] / (sqrtf(s[i]) * f.inverse_correction + f.epsilon);
    }
    store(m, mean + first);
    store(s, square + first);
    store(value, master + first);
    store(value, values + first);
  }
};

/// `master` as in AdamWEach; null `velocity`: no momentum.
template <typename T, typename Gradient>
struct SgdEach {
  T* values;
  float* master;
  const Gradient* gradient;
  float* velocity;
  float rate;
  float momentum;

  template <int kWidth>
  __device__ void at(std::size_t first) const {
    float value[kWidth];
    float slope[kWidth];
    load(master + first, value);
    load(gradient + first, slope);
    if (velocity != nullptr) {
      float before[kWidth];
      load(velocity + first, before);
      for (int i = 0; i < kWidth; ++i) slope[i] += momentum * before[i];
      store(slope, velocity + first);
    }
    for (int i = 0; i < kWidth; ++i) value[i] -= rate * slope[i];
    store(value, master + first);
    store(value, values + first);
  }
};

}  // namespace trainer::cuda
