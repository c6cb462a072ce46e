// Step size of AdamW. Pure.
#pragma once

#include "trainers/compute/operations.hpp"

#include <cmath>
#include <cstdint>

namespace trainer {

/// Returns the step's values, in float64 as beta^step is close to 1 initially. `step` starts at 1.
inline AdamWPace adamw_pace(std::int64_t step, double learning_rate, double beta1, double beta2) {
  const auto steps = static_cast<double>(step);
  return {.learning_rate = learning_rate,
          .rate = learning_rate / (1 - std::pow(beta1, steps)),
          .inverse_correction = 1 / std::sqrt(1 - std::pow(beta2, steps))};
}

/// Returns the values for an AdamW without `pace`.
inline AdamWPace adamw_pace(const AdamW& o) {
  return adamw_pace(o.step, o.learning_rate, o.beta1, o.beta2);
}

}  // namespace trainer
