// Division of a sum, for averages with libraries that only add, and over fewer ranks.
#pragma once

#include <ddprun/buffer.hpp>

namespace ddprun::collectives {

/// Divides each element by `divisor`, at least 1, in place; integers are rounded towards zero, half
/// types are divided in float32.
void divide(Buffer buffer, int divisor);

/// Multiplies each element by `factor` in place, with one rounding; integers are rounded towards
/// zero.
void scale(Buffer buffer, double factor);

}  // namespace ddprun::collectives
