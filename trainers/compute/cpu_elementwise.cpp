#include "trainers/compute/adamw_pace.hpp"
#include "trainers/compute/cpu_kernels.hpp"
#include "trainers/compute/cpu_math.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trainer::cpu {

namespace {

constexpr double kCubic = 0.044715;

/// Argument of tanh in GELU.
template <typename Real>
Real bend(Real x) {
  const auto factor = static_cast<Real>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  return tangent(factor * (x + static_cast<Real>(kCubic) * x * x * x));
}

}  // namespace

template <typename Real>
void compute(const Gelu& o) {
  const Real* input = values_of<Real>(o.input);
  Real* output = values_of<Real>(o.output);
  const auto half = static_cast<Real>(0.5);
  for (std::size_t i = 0; i < o.elements; ++i) {
    output[i] = half * input[i] * (1 + bend(input[i]));
  }
}

template <typename Real>
void compute(const GeluBackward& o) {
  const Real* input = values_of<Real>(o.input);
  const Real* gradient = values_of<Real>(o.output_gradient);
  Real* result = values_of<Real>(o.input_gradient);
  const auto half = static_cast<Real>(0.5);
  const auto factor = static_cast<Real>(std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  for (std::size_t i = 0; i < o.elements; ++i) {
    const Real x = input[i];
    const Real bent = bend(x);
    const Real inner_slope = factor * (1 + static_cast<Real>(3 * kCubic) * x * x);
    result[i] = gradient[i] * half * (1 + bent + x * (1 - bent * bent) * inner_slope);
  }
}

template <typename Real>
void compute(const Activation& o) {
  const Real* input = values_of<Real>(o.input);
  Real* output = values_of<Real>(o.output);
  if (o.function == ActivationFunction::relu) {
    std::transform(input, input + o.elements, output, [](Real x) { return std::max(x, Real{0}); });
  } else {
    std::transform(input, input + o.elements, output,
                   [](Real x) { return 1 / (1 + std::exp(-x)); });
  }
}

template <typename Real>
void compute(const ActivationBackward& o) {
  const Real* output = values_of<Real>(o.output);
  const Real* gradient = values_of<Real>(o.output_gradient);
  Real* result = values_of<Real>(o.input_gradient);
  if (o.function == ActivationFunction::relu) {
    for (std::size_t i = 0; i < o.elements; ++i) result[i] = output[i] > 0 ? gradient[i] : Real{0};
  } else {
    for (std::size_t i = 0; i < o.elements; ++i) {
      result[i] = gradient[i] * output[i] * (1 - output[i]);
    }
  }
}

template <typename Real>
void compute(const MeanSquaredError& o) {
  const auto factor = 2 * (1 / static_cast<Real>(o.columns)) * static_cast<Real>(o.gradient_scale);
  for (std::size_t row = 0; row < o.rows; ++row) {
    Real* output = values_of<Real>(o.output) + row * o.columns;
    const Real* targets = values_of<Real>(o.targets) + row * o.columns;
    double squares = 0;
    for (std::size_t i = 0; i < o.columns; ++i) {
      const Real error = output[i] - targets[i];
      squares += static_cast<double>(error) * static_cast<double>(error);
      output[i] = factor * error;
    }
    values_of<Real>(o.losses)[row] = static_cast<Real>(squares / static_cast<double>(o.columns));
  }
}

template <typename Real>
void compute(const AddSum& o) {
  const Real* values = values_of<Real>(o.values);
  const auto squared = [values](std::size_t i) {
    const auto value = static_cast<double>(values[i]);
    return value * value;
  };
  const auto plain = [values](std::size_t i) { return static_cast<double>(values[i]); };
  *values_of<double>(o.total) +=
      o.squares ? sum<double>(o.elements, squared) : sum<double>(o.elements, plain);
}

template <typename Real>
void compute(const AdamW& o) {
  double clip = 1;
  if (o.gradient_norm_max > 0) {
    constexpr double kNoDivisionByZero = 1e-6;  // PyTorch's
    const double norm = std::sqrt(*values_of<double>(o.squared_norm));
    clip = std::min(1.0, o.gradient_norm_max / (norm + kNoDivisionByZero));
  }
  const AdamWPace pace =
      o.pace.data == nullptr ? adamw_pace(o) : *values_of<const AdamWPace>(o.pace);
  const auto rate = static_cast<Real>(pace.rate);
  const auto inverse_correction = static_cast<Real>(pace.inverse_correction);
  const auto keep = static_cast<Real>(1 - pace.learning_rate * o.weight_decay);
  const auto clipped = static_cast<Real>(clip);
  const auto beta1 = static_cast<Real>(o.beta1);
  const auto beta2 = static_cast<Real>(o.beta2);
  const auto epsilon = static_cast<Real>(o.epsilon);
  Real* values = values_of<Real>(o.values);
  const Real* gradient = values_of<Real>(o.gradient);
  Real* mean = values_of<Real>(o.mean);
  Real* square = values_of<Real>(o.square);
  for (std::size_t i = 0; i < o.elements; ++i) {
    const Real slope = gradient[i] * clipped;
    mean[i] += (1 - beta1) * (slope - mean[i]);
    square[i] = beta2 * square[i] + (1 - beta2) * slope * slope;
    values[i] =
        keep * values[i] - rate * mean[i] / (std::sqrt(square[i]) * inverse_correction + epsilon);
  }
}

template <typename Real>
void compute(const Sgd& o) {
  const auto rate = static_cast<Real>(o.learning_rate);
  const auto momentum = static_cast<Real>(o.momentum);
  Real* values = values_of<Real>(o.values);
  const Real* gradient = values_of<Real>(o.gradient);
  if (momentum == 0) {
    for (std::size_t i = 0; i < o.elements; ++i) values[i] -= rate * gradient[i];
    return;
  }
  Real* velocity = values_of<Real>(o.velocity);
  for (std::size_t i = 0; i < o.elements; ++i) {
    velocity[i] = momentum * velocity[i] + gradient[i];
    values[i] -= rate * velocity[i];
  }
}

template <typename Real>
void compute(const Convert& o) {
  const Real* input = values_of<Real>(o.input);
  if (o.output.type == ddprun::DataType::float32) {
    std::transform(input, input + o.elements, values_of<float>(o.output),
                   [](Real value) { return static_cast<float>(value); });
  } else {
    std::transform(input, input + o.elements, values_of<double>(o.output),
                   [](Real value) { return static_cast<double>(value); });
  }
}

template void compute<float>(const Gelu&);
template void compute<double>(const Gelu&);
template void compute<float>(const GeluBackward&);
template void compute<double>(const GeluBackward&);
template void compute<float>(const Activation&);
template void compute<double>(const Activation&);
template void compute<float>(const ActivationBackward&);
template void compute<double>(const ActivationBackward&);
template void compute<float>(const MeanSquaredError&);
template void compute<double>(const MeanSquaredError&);
template void compute<float>(const AddSum&);
template void compute<double>(const AddSum&);
template void compute<float>(const AdamW&);
template void compute<double>(const AdamW&);
template void compute<float>(const Sgd&);
template void compute<double>(const Sgd&);
template void compute<float>(const Convert&);
template void compute<double>(const Convert&);

}  // namespace trainer::cpu
