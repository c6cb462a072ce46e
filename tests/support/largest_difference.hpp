// How far two runs' values are apart.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace ddprun::test {

/// Infinite if one of the values or differences is not finite. Fails the test if the lengths
/// differ.
inline double largest_difference(const std::vector<float>& left, const std::vector<float>& right) {
  REQUIRE(left.size() == right.size());
  double largest = 0;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const double apart = std::abs(static_cast<double>(left[i]) - static_cast<double>(right[i]));
    largest = std::isfinite(apart) ? std::max(largest, apart) : INFINITY;
  }
  return largest;
}

}  // namespace ddprun::test
