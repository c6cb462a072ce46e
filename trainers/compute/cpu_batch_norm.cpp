// Batch normalisation over the rows of a batch. Loops process a row at a time, for contiguous
// access.
#include "trainers/compute/cpu_kernels.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace trainer::cpu {

namespace {

/// Computes the mean of each column, and the mean of the squared deviations.
template <typename Real>
void measure(const BatchNorm& o, Real* mean, Real* variance) {
  const Real* input = values_of<Real>(o.input);
  const auto add_rows = [&](Real* sums, const auto& term) {
    std::fill_n(sums, o.columns, Real{0});
    for (std::size_t row = 0; row < o.rows; ++row) {
      const Real* from = input + row * o.columns;
      for (std::size_t i = 0; i < o.columns; ++i) sums[i] += term(from[i], i);
    }
    const Real share = 1 / static_cast<Real>(o.rows);
    for (std::size_t i = 0; i < o.columns; ++i) sums[i] *= share;
  };
  add_rows(mean, [](Real x, std::size_t) { return x; });
  add_rows(variance, [mean](Real x, std::size_t i) { return (x - mean[i]) * (x - mean[i]); });
}

template <typename Real>
void move_running(const BatchNorm& o, const Real* mean, const Real* variance) {
  if (o.rows < 2) return;
  const auto momentum = static_cast<Real>(kBatchNormMomentum);
  const Real unbiased = static_cast<Real>(o.rows) / static_cast<Real>(o.rows - 1);
  Real* running_mean = values_of<Real>(o.running_mean);
  Real* running_variance = values_of<Real>(o.running_variance);
  for (std::size_t i = 0; i < o.columns; ++i) {
    running_mean[i] += momentum * (mean[i] - running_mean[i]);
    running_variance[i] += momentum * (variance[i] * unbiased - running_variance[i]);
  }
}

}  // namespace

template <typename Real>
void compute(const BatchNorm& o) {
  if (o.rows == 0) return;
  Real* mean = values_of<Real>(o.mean);
  Real* inverse = values_of<Real>(o.inverse_deviation);
  if (o.trains) {
    measure(o, mean, inverse);
    move_running(o, mean, inverse);
  } else {
    std::copy_n(values_of<Real>(o.running_mean), o.columns, mean);
    std::copy_n(values_of<Real>(o.running_variance), o.columns, inverse);
  }
  for (std::size_t i = 0; i < o.columns; ++i) {
    inverse[i] = 1 / std::sqrt(inverse[i] + static_cast<Real>(kBatchNormEpsilon));
  }
  const Real* scale = values_of<Real>(o.scale);
  const Real* shift = values_of<Real>(o.shift);
  for (std::size_t row = 0; row < o.rows; ++row) {
    const Real* from = values_of<Real>(o.input) + row * o.columns;
    Real* to = values_of<Real>(o.output) + row * o.columns;
    for (std::size_t i = 0; i < o.columns; ++i) {
      to[i] = (from[i] - mean[i]) * inverse[i] * scale[i] + shift[i];
    }
  }
}

template <typename Real>
void compute(const BatchNormBackward& o) {
  if (o.rows == 0) return;
  const Real* mean = values_of<Real>(o.mean);
  const Real* inverse = values_of<Real>(o.inverse_deviation);
  std::vector<Real> sum(o.columns);
  std::vector<Real> sum_along(o.columns);
  for (std::size_t row = 0; row < o.rows; ++row) {
    const Real* input = values_of<Real>(o.input) + row * o.columns;
    const Real* gradient = values_of<Real>(o.output_gradient) + row * o.columns;
    for (std::size_t i = 0; i < o.columns; ++i) {
      sum[i] += gradient[i];
      sum_along[i] += gradient[i] * ((input[i] - mean[i]) * inverse[i]);
    }
  }
  // Separate from the sums of earlier passes, which input_gradient must not include.
  for (std::size_t i = 0; i < o.columns; ++i) {
    values_of<Real>(o.shift_gradient)[i] += sum[i];
    values_of<Real>(o.scale_gradient)[i] += sum_along[i];
  }
  const Real* scale = values_of<Real>(o.scale);
  const Real share = 1 / static_cast<Real>(o.rows);
  for (std::size_t row = 0; row < o.rows; ++row) {
    const Real* input = values_of<Real>(o.input) + row * o.columns;
    const Real* gradient = values_of<Real>(o.output_gradient) + row * o.columns;
    Real* to = values_of<Real>(o.input_gradient) + row * o.columns;
    for (std::size_t i = 0; i < o.columns; ++i) {
      const Real normalised = (input[i] - mean[i]) * inverse[i];
      const Real mean_part = share * (sum[i] + normalised * sum_along[i]);
      to[i] = scale[i] * inverse[i] * (gradient[i] - mean_part);
    }
  }
}

template void compute<float>(const BatchNorm&);
template void compute<double>(const BatchNorm&);
template void compute<float>(const BatchNormBackward&);
template void compute<double>(const BatchNormBackward&);

}  // namespace trainer::cpu
