// The second half of an average, for libraries that can only add.
#pragma once

#include <ddprun/buffer.hpp>

namespace ddprun::collectives {

/// Divides each element by `divisor` in place; integers are rounded towards zero, half types
/// divided in float32. At least 1.
void divide(Buffer buffer, int divisor);

}  // namespace ddprun::collectives
