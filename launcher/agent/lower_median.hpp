// A median for the detectors of slow ranks and links. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace ddprun {

/// Returns the lower median of a member of `values`, which are not empty.
template <typename Values, typename Value>
double lower_median(const Values& values, double Value::*member) {
  std::vector<double> numbers;
  numbers.reserve(values.size());
  for (const auto& value : values) numbers.push_back(value.*member);
  const auto middle = numbers.begin() + (static_cast<std::ptrdiff_t>(numbers.size()) - 1) / 2;
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

}  // namespace ddprun
