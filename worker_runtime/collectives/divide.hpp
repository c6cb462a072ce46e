// The second half of an average, for libraries that can only add, and of one over fewer ranks.
#pragma once

#include <ddprun/buffer.hpp>

namespace ddprun::collectives {

/// Divides each element by `divisor` in place; integers are rounded towards zero, half types
/// divided in float32. At least 1.
void divide(Buffer buffer, int divisor);

/// Multiplies each element by `factor` in place, with one rounding; integers are rounded towards
/// zero.
void scale(Buffer buffer, double factor);

}  // namespace ddprun::collectives
