// Gradients that lie outside of the buckets, in the caller's memory, and their way into the bucket
// and back. The functions touch nothing but the two buffers given.
#pragma once

#include <ddprun/reducer_options.hpp>

namespace ddprun {

/// How an own gradient relates to its place in the bucket.
constexpr bool has_own_gradient(const Parameter& parameter) {
  return parameter.gradient.data != nullptr;
}

/// Of another type than the bucket's: each step's gradient is added to what is in the bucket.
inline bool is_added(const Parameter& parameter, const Buffer& in_bucket) {
  return has_own_gradient(parameter) && parameter.gradient.type != in_bucket.type;
}

/// Of the bucket's type: what the caller has added up is copied into the bucket.
inline bool is_copied(const Parameter& parameter, const Buffer& in_bucket) {
  return has_own_gradient(parameter) && parameter.gradient.type == in_bucket.type;
}

/// to += from, [elements] of a half type and of float32.
void add_widened(const Buffer& from, const Buffer& to);

}  // namespace ddprun
