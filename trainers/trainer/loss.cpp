#include "trainers/trainer/loss.hpp"

#include <algorithm>

namespace trainer {

double cross_entropy(const Matrix& log_probabilities, std::span<const std::uint8_t> labels,
                     float scale, Matrix& gradient) {
  gradient.reshape(log_probabilities.rows, log_probabilities.columns);
  std::fill(gradient.values.begin(), gradient.values.end(), 0.0F);
  double sum = 0;
  for (std::size_t row = 0; row < log_probabilities.rows; ++row) {
    sum -= static_cast<double>(log_probabilities.row(row)[labels[row]]);
    gradient.row(row)[labels[row]] = -scale;
  }
  return sum;
}

double mean_squared_error(const Matrix& output, const Matrix& targets, float scale,
                          Matrix& gradient) {
  gradient.reshape(output.rows, output.columns);
  const float share = 1 / static_cast<float>(output.columns);
  double sum = 0;
  for (std::size_t i = 0; i < output.values.size(); ++i) {
    const float error = output.values[i] - targets.values[i];
    sum += static_cast<double>(error) * static_cast<double>(error);
    gradient.values[i] = 2 * share * scale * error;
  }
  return sum * static_cast<double>(share);
}

}  // namespace trainer
