// Statistics of at least one measured value.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace ddprun::bench {

/// The value below which `share` of all are.
inline double quantile(std::vector<double> values, double share) {
  const auto place = static_cast<std::size_t>(static_cast<double>(values.size()) * share);
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::min(place, values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

inline double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

}  // namespace ddprun::bench
