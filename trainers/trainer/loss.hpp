// Loss functions: the value and its gradient by the model's output. The gradient is scaled by the
// caller, who alone knows over how many samples of all workers the mean is taken.
#pragma once

#include "trainers/trainer/matrix.hpp"

#include <cstdint>
#include <span>

namespace trainer {

/// Cross-entropy of log-probabilities [rows, classes] against `labels` [rows], summed over the rows
/// (negative log-likelihood). Writes scale * d(sum)/d(output) to `gradient`.
double cross_entropy(const Matrix& log_probabilities, std::span<const std::uint8_t> labels,
                     float scale, Matrix& gradient);

/// Mean over the columns of the squared error against `targets` [rows, columns], summed over the
/// rows. Writes scale * d(sum)/d(output) to `gradient`.
double mean_squared_error(const Matrix& output, const Matrix& targets, float scale,
                          Matrix& gradient);

}  // namespace trainer
