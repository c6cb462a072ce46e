// A matrix product whose every bit is known: its factors are small integers, so that all sums are
// exact in float32, in whichever order they are added. Pure; any thread.
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

/// Above it a sum might not fit into the 24 bits of a float32.
inline constexpr std::size_t kExactProductMax = 65536;

/// `n` is at most kExactProductMax.
Factors make_factors(std::size_t n);

/// The first row of `product` in which something is not as in left * right; nothing: all is right.
/// Takes n * n steps rather than n * n * n: both sides are multiplied by a vector, in integers, and
/// compared. A single wrong element in a row is always seen.
std::optional<std::size_t> wrong_row(const Factors& factors, const std::vector<float>& product);

}  // namespace ddprun::cuda
