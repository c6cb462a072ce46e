// Limits of the data that a peer may send. Announced lengths are checked before any byte is read or
// any memory is allocated.
#pragma once

#include <cstddef>

namespace ddprun::wire {

// The first three are the limits of PyTorch's server: requests that it accepts are accepted here.
inline constexpr std::size_t kKeyBytesMax = 8 * 1024;
inline constexpr std::size_t kValueBytesMax = 8 * 1024 * 1024;
inline constexpr std::size_t kKeysPerRequestMax = 131'072;

/// Maximum total bytes of a request's keys and values: eight of the largest values. Without this
/// limit, a MULTI_SET could announce a terabyte.
inline constexpr std::size_t kRequestBytesMax = 8 * kValueBytesMax;

}  // namespace ddprun::wire
