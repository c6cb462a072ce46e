#include "worker_runtime/ddp/hooks/low_rank.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

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

/// A number within 0 and 1, both excluded: SplitMix64 (Steele, Lea, Flood, 2014) at `index`, so
/// that a device can make all numbers at once.
double uniform_at(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t bits = seed + (index + 1) * 0x9e37'79b9'7f4a'7c15;
  bits = (bits ^ (bits >> 30)) * 0xbf58'476d'1ce4'e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d0'49bb'1331'11eb;
  bits ^= bits >> 31;
  return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
}

/// Replaces the matrix by `factor` times what stands for it, and keeps what that misses of it.
void expand(const LowRankMatrix& matrix, MatrixView left, MatrixView right, float factor) {
  std::vector<float> product(matrix.columns);
  for (std::size_t i = 0; i < matrix.rows; ++i) {
    expand_row(left, right, i, product);
    float* const row = matrix.matrix + i * matrix.columns;
    if (matrix.errors != nullptr) {
      float* const errors = matrix.errors + i * matrix.columns;
      for (std::size_t j = 0; j < product.size(); ++j) errors[j] = row[j] - product[j];
    }
    for (std::size_t j = 0; j < product.size(); ++j) row[j] = factor * product[j];
  }
}

void compute(const LowRankOrder& order, const LowRankMatrix& matrix) {
  const MatrixView whole = {matrix.matrix, matrix.rows, matrix.columns};
  const MatrixView left = {matrix.left, order.rank, matrix.rows};
  const MatrixView right = {matrix.right, order.rank, matrix.columns};
  switch (order.step) {
    case LowRankStep::fill_right:
      return fill_random(right, order.seed);
    case LowRankStep::orthonormalise_right:
      return orthonormalise_rows(right);
    case LowRankStep::orthonormalise_left:
      return orthonormalise_rows(left);
    case LowRankStep::project_columns:
      return project_columns(whole, right, left);
    case LowRankStep::project_rows:
      return project_rows(whole, left, right);
    case LowRankStep::expand:
      return expand(matrix, left, right, order.factor);
  }
}

}  // namespace

void fill_random(MatrixView matrix, std::uint64_t seed) {
  // Box and Muller's transformation: the standard's distribution is another one in each library.
  for (std::size_t i = 0; i < matrix.rows * matrix.columns; ++i) {
    const double radius = std::sqrt(-2 * std::log(uniform_at(seed, 2 * i)));
    const double angle = 2 * std::numbers::pi * uniform_at(seed, 2 * i + 1);
    matrix.data[i] = static_cast<float>(radius * std::cos(angle));
  }
}

void compute_low_rank(const LowRankOrder& order, std::span<const LowRankMatrix> matrices) {
  for (const auto& matrix : matrices) compute(order, matrix);
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
