#include "trainers/trainer/layers.hpp"

#include <algorithm>
#include <cmath>

namespace trainer {

namespace {

// PyTorch's defaults.
constexpr float kEpsilon = 1e-5F;
constexpr float kMomentum = 0.1F;

}  // namespace

BatchNorm::BatchNorm(std::size_t columns)
    : columns_(columns),
      scale_{.name = "scale", .index = 0, .values = std::vector<float>(columns, 1), .gradient = {}},
      shift_{.name = "shift", .index = 0, .values = std::vector<float>(columns, 0), .gradient = {}},
      running_mean_(columns, 0),
      running_variance_(columns, 1),
      mean_(columns),
      variance_(columns),
      inverse_deviation_(columns) {}

void BatchNorm::forward(const Matrix& input, Matrix& output, Mode mode) {
  output.reshape(input.rows, columns_);
  if (mode == Mode::train) {
    measure(input);
    update_running_statistics(input.rows);
  } else {
    mean_ = running_mean_;
    variance_ = running_variance_;
  }
  for (std::size_t column = 0; column < columns_; ++column) {
    inverse_deviation_[column] = 1 / std::sqrt(variance_[column] + kEpsilon);
  }
  for (std::size_t row = 0; row < input.rows; ++row) {
    const float* from = input.row(row);
    float* to = output.row(row);
    for (std::size_t column = 0; column < columns_; ++column) {
      const float normalised = (from[column] - mean_[column]) * inverse_deviation_[column];
      to[column] = normalised * scale_.values[column] + shift_.values[column];
    }
  }
}

void BatchNorm::measure(const Matrix& input) {
  std::fill(mean_.begin(), mean_.end(), 0.0F);
  std::fill(variance_.begin(), variance_.end(), 0.0F);
  if (input.rows == 0) return;
  const float share = 1 / static_cast<float>(input.rows);
  for (std::size_t row = 0; row < input.rows; ++row) {
    const float* values = input.row(row);
    for (std::size_t column = 0; column < columns_; ++column) mean_[column] += values[column];
  }
  for (float& mean : mean_) mean *= share;
  for (std::size_t row = 0; row < input.rows; ++row) {
    const float* values = input.row(row);
    for (std::size_t column = 0; column < columns_; ++column) {
      const float distance = values[column] - mean_[column];
      variance_[column] += distance * distance;
    }
  }
  for (float& variance : variance_) variance *= share;
}

void BatchNorm::update_running_statistics(std::size_t rows) {
  if (rows < 2) return;
  const float unbiased = static_cast<float>(rows) / static_cast<float>(rows - 1);
  for (std::size_t column = 0; column < columns_; ++column) {
    running_mean_[column] += kMomentum * (mean_[column] - running_mean_[column]);
    running_variance_[column] +=
        kMomentum * (variance_[column] * unbiased - running_variance_[column]);
  }
}

/// With y the normalised input and N rows, and d for "gradient by":
/// dx = scale / (N * deviation) * (N * dout - sum(dout) - y * sum(dout * y)).
void BatchNorm::backward(const BackwardPass& pass, const GradientReady& ready) {
  const std::size_t rows = pass.input.rows;
  std::vector<float> shift_gradient(columns_);
  std::vector<float> scale_gradient(columns_);
  for (std::size_t row = 0; row < rows; ++row) {
    const float* input = pass.input.row(row);
    const float* gradient = pass.output_gradient.row(row);
    for (std::size_t column = 0; column < columns_; ++column) {
      const float normalised = (input[column] - mean_[column]) * inverse_deviation_[column];
      shift_gradient[column] += gradient[column];
      scale_gradient[column] += gradient[column] * normalised;
    }
  }
  // Kept apart from the sums of earlier micro-batches, which input_gradient must not see.
  for (std::size_t column = 0; column < columns_; ++column) {
    shift_.gradient[column] += shift_gradient[column];
    scale_.gradient[column] += scale_gradient[column];
  }
  ready(shift_);
  ready(scale_);
  if (pass.input_gradient == nullptr) return;

  pass.input_gradient->reshape(rows, columns_);
  const float share = rows == 0 ? 0 : 1 / static_cast<float>(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    const float* input = pass.input.row(row);
    const float* gradient = pass.output_gradient.row(row);
    float* to = pass.input_gradient->row(row);
    for (std::size_t column = 0; column < columns_; ++column) {
      const float normalised = (input[column] - mean_[column]) * inverse_deviation_[column];
      const float mean_part =
          share * (shift_gradient[column] + normalised * scale_gradient[column]);
      to[column] =
          scale_.values[column] * inverse_deviation_[column] * (gradient[column] - mean_part);
    }
  }
}

}  // namespace trainer
