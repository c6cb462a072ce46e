#include "worker_runtime/cuda/exact_product.hpp"

#include <cmath>
#include <cstdint>

namespace ddprun::cuda {

namespace {

// Maximum element of a factor: 16 * 16 * 65536 = 2^24.
constexpr std::int64_t kLargest = 16;

/// Returns a pseudo-random integer from -kLargest to kLargest.
float value_at(std::uint64_t index, std::uint64_t seed) {
  std::uint64_t mixed = (index + seed) * 0x9E3779B97F4A7C15ULL;
  mixed ^= mixed >> 32;
  mixed *= 0xD6E8FEB86659FD93ULL;
  mixed ^= mixed >> 32;
  return static_cast<float>(static_cast<std::int64_t>(mixed % (2 * kLargest + 1)) - kLargest);
}

/// Returns a weight that is not 0, so that each element affects the result.
std::int64_t weight(std::size_t column) {
  return static_cast<std::int64_t>(column % 61) + 1;
}

/// Returns the element as an integer; for other values, one that is wrong in any case.
std::int64_t integer_of(float value) {
  constexpr float kTooLarge = 1 << 25;
  const bool is_possible = std::trunc(value) == value && std::fabs(value) < kTooLarge;
  return is_possible ? static_cast<std::int64_t>(value) : std::int64_t{1} << 40;
}

std::vector<std::int64_t> times(const std::vector<float>& matrix,
                                const std::vector<std::int64_t>& vector) {
  const std::size_t n = vector.size();
  std::vector<std::int64_t> result(n);
  for (std::size_t row = 0; row < n; ++row) {
    for (std::size_t column = 0; column < n; ++column)
      result[row] += integer_of(matrix[row * n + column]) * vector[column];
  }
  return result;
}

}  // namespace

Factors make_factors(std::size_t n) {
  Factors factors{.n = n, .left = std::vector<float>(n * n), .right = std::vector<float>(n * n)};
  for (std::size_t i = 0; i < n * n; ++i) {
    factors.left[i] = value_at(i, 1);
    factors.right[i] = value_at(i, n * n + 1);
  }
  return factors;
}

std::optional<std::size_t> wrong_row(const Factors& factors, const std::vector<float>& product) {
  std::vector<std::int64_t> weights(factors.n);
  for (std::size_t column = 0; column < factors.n; ++column) weights[column] = weight(column);
  const auto expected = times(factors.left, times(factors.right, weights));
  const auto found = times(product, weights);
  for (std::size_t row = 0; row < factors.n; ++row) {
    if (found[row] != expected[row]) return row;
  }
  return std::nullopt;
}

}  // namespace ddprun::cuda
