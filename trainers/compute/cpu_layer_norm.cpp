#include "trainers/compute/cpu_kernels.hpp"
#include "trainers/compute/cpu_math.hpp"

#include <cmath>

namespace trainer::cpu {

template <typename Real>
void compute(const LayerNorm& o) {
  const Real* weight = values_of<Real>(o.weight);
  const Real* bias = values_of<Real>(o.bias);
  const auto channels = static_cast<Real>(o.channels);
  for (std::size_t row = 0; row < o.rows; ++row) {
    const std::size_t begin = row * o.channels;
    const Real* input = values_of<Real>(o.input) + begin;
    if (o.addend.data != nullptr) {
      const Real* addend = values_of<Real>(o.addend) + begin;
      Real* total = values_of<Real>(o.sum) + begin;
      for (std::size_t i = 0; i < o.channels; ++i) total[i] = input[i] + addend[i];
      input = total;
    }
    const Real mean = sum<Real>(o.channels, [=](std::size_t i) { return input[i]; }) / channels;
    const Real variance =
        sum<Real>(o.channels,
                  [=](std::size_t i) { return (input[i] - mean) * (input[i] - mean); }) /
        channels;
    const Real inverse = 1 / std::sqrt(variance + static_cast<Real>(kLayerNormEpsilon));
    Real* output = values_of<Real>(o.output) + begin;
    for (std::size_t i = 0; i < o.channels; ++i) {
      output[i] = (input[i] - mean) * inverse * weight[i] + bias[i];
    }
    values_of<Real>(o.mean)[row] = mean;
    values_of<Real>(o.inverse_deviation)[row] = inverse;
  }
}

template <typename Real>
void compute(const LayerNormBackward& o) {
  const Real* weight = values_of<Real>(o.weight);
  Real* weight_gradient = values_of<Real>(o.weight_gradient);
  Real* bias_gradient = values_of<Real>(o.bias_gradient);
  const auto channels = static_cast<Real>(o.channels);
  for (std::size_t row = 0; row < o.rows; ++row) {
    const Real* input = values_of<Real>(o.input) + row * o.channels;
    const Real* gradient = values_of<Real>(o.output_gradient) + row * o.channels;
    Real* input_gradient = values_of<Real>(o.input_gradient) + row * o.channels;
    const Real mean = values_of<Real>(o.mean)[row];
    const Real inverse = values_of<Real>(o.inverse_deviation)[row];
    const auto normal = [=](std::size_t i) { return (input[i] - mean) * inverse; };
    // Gradient of the normalised values, minus its mean and its projection on these values, which
    // normalisation removes.
    const Real mean_gradient =
        sum<Real>(o.channels, [=](std::size_t i) { return gradient[i] * weight[i]; }) / channels;
    const Real along =
        sum<Real>(o.channels, [=](std::size_t i) { return gradient[i] * weight[i] * normal(i); }) /
        channels;
    for (std::size_t i = 0; i < o.channels; ++i) {
      bias_gradient[i] += gradient[i];
      weight_gradient[i] += gradient[i] * normal(i);
    }
    for (std::size_t i = 0; i < o.channels; ++i) {
      input_gradient[i] += (gradient[i] * weight[i] - mean_gradient - normal(i) * along) * inverse;
    }
  }
}

template void compute<float>(const LayerNorm&);
template void compute<double>(const LayerNorm&);
template void compute<float>(const LayerNormBackward&);
template void compute<double>(const LayerNormBackward&);

}  // namespace trainer::cpu
