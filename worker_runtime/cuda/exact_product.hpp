// An exact matrix product: the factors are small integers, so that all sums are exact in float32 in
// any order of addition. Pure; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace ddprun::cuda {

/// Square matrices [n, n] float32, by rows.
struct Factors {
  std::size_t n = 0;
  std::vector<float> left;
  std::vector<float> right;
};

/// Maximum size whose sums fit into the 24 bits of a float32.
inline constexpr std::size_t kExactProductMax = 65536;

/// `n`: at most kExactProductMax.
Factors make_factors(std::size_t n);

/// Returns the first row of `product` that differs from left * right, if any. Multiplies both sides
/// by a vector of integers, which takes n * n steps and always detects a single wrong element in a
/// row.
std::optional<std::size_t> wrong_row(const Factors& factors, const std::vector<float>& product);

}  // namespace ddprun::cuda
