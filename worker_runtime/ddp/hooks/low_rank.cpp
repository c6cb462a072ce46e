#include "worker_runtime/ddp/hooks/low_rank.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <random>

namespace ddprun {

namespace {

/// What is left of a row after the others were taken out of it, by its length before: below this it
/// is rounding.
constexpr float kDependent = 1e-5F;

float dot(std::span<const float> left, std::span<const float> right) {
  // Several sums, so that they are added in vector registers.
  std::array<float, 16> sums = {};
  std::size_t i = 0;
  for (; i + sums.size() <= left.size(); i += sums.size()) {
    for (std::size_t lane = 0; lane < sums.size(); ++lane) {
      sums[lane] += left[i + lane] * right[i + lane];
    }
  }
  float total = 0;
  for (; i < left.size(); ++i) total += left[i] * right[i];
  for (const float sum : sums) total += sum;
  return total;
}

/// to += factor * from
void add_scaled(std::span<float> to, float factor, std::span<const float> from) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] += factor * from[i];
}

}  // namespace

void fill_random(MatrixView matrix, std::uint64_t seed) {
  // Box and Muller's transformation: the standard's distribution is another one in each library.
  std::mt19937_64 random(seed);
  const auto uniform = [&random] {
    return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;  // within 0 and 1, both excluded
  };
  for (std::size_t i = 0; i < matrix.rows * matrix.columns; ++i) {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    matrix.data[i] = static_cast<float>(radius * std::cos(2 * std::numbers::pi * uniform()));
  }
}

void orthonormalise_rows(MatrixView matrix) {
  for (std::size_t k = 0; k < matrix.rows; ++k) {
    const auto row = matrix.row(k);
    const float before = std::sqrt(dot(row, row));
    for (std::size_t other = 0; other < k; ++other) {
      add_scaled(row, -dot(row, matrix.row(other)), matrix.row(other));
    }
    const float length = std::sqrt(dot(row, row));
    const float factor = length > kDependent * before ? 1 / length : 0;
    for (float& element : row) element *= factor;
  }
}

void project_columns(MatrixView matrix, MatrixView right, MatrixView left) {
  for (std::size_t i = 0; i < matrix.rows; ++i) {
    for (std::size_t k = 0; k < left.rows; ++k) left.row(k)[i] = dot(matrix.row(i), right.row(k));
  }
}

void project_rows(MatrixView matrix, MatrixView left, MatrixView right) {
  std::fill_n(right.data, right.rows * right.columns, 0.0F);
  for (std::size_t i = 0; i < matrix.rows; ++i) {
    for (std::size_t k = 0; k < left.rows; ++k) {
      add_scaled(right.row(k), left.row(k)[i], matrix.row(i));
    }
  }
}

void expand_row(MatrixView left, MatrixView right, std::size_t row, std::span<float> result) {
  std::fill(result.begin(), result.end(), 0.0F);
  for (std::size_t k = 0; k < left.rows; ++k) {
    add_scaled(result, left.row(k)[row], right.row(k));
  }
}

}  // namespace ddprun
