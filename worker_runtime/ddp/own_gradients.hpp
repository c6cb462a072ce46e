// Gradients in memory of the caller, outside of buckets, and their transfer to the bucket.
#pragma once

#include <ddprun/reducer_options.hpp>

namespace ddprun {

/// Returns true if the caller provides memory for the gradient.
constexpr bool has_own_gradient(const Parameter& parameter) {
  return parameter.gradient.data != nullptr;
}

/// Returns true if its type differs from the bucket's: each step's gradient is added to the bucket.
inline bool is_added(const Parameter& parameter, const Buffer& in_bucket) {
  return has_own_gradient(parameter) && parameter.gradient.type != in_bucket.type;
}

/// Returns true if its type is the bucket's: the caller's accumulated gradient is copied there.
inline bool is_copied(const Parameter& parameter, const Buffer& in_bucket) {
  return has_own_gradient(parameter) && parameter.gradient.type == in_bucket.type;
}

/// Adds `from`, of a half type, to `to`, of float32.
void add_widened(const Buffer& from, const Buffer& to);

}  // namespace ddprun
