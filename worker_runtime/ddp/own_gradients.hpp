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

/// True if it has the bucket's type: the caller's accumulated gradient is copied into the bucket.
inline bool is_copied(const Parameter& parameter, const Buffer& in_bucket) {
  return has_own_gradient(parameter) && parameter.gradient.type == in_bucket.type;
}

/// to += from; `from` has a half type, `to` float32.
void add_widened(const Buffer& from, const Buffer& to);

}  // namespace ddprun
