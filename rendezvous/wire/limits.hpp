// What a peer may send at most. All are checked against the announced length, before a byte of it
// has been read or a byte of memory taken.
#pragma once

#include <cstddef>

namespace ddprun::wire {

// The first three are those of PyTorch's own server, so that nothing it accepts is refused here.
inline constexpr std::size_t kKeyBytesMax = 8 * 1024;
inline constexpr std::size_t kValueBytesMax = 8 * 1024 * 1024;
inline constexpr std::size_t kKeysPerRequestMax = 131'072;

/// All keys and values of one request together. Eight of the largest values: without it a
/// MULTI_SET could announce a terabyte.
inline constexpr std::size_t kRequestBytesMax = 8 * kValueBytesMax;

}  // namespace ddprun::wire
