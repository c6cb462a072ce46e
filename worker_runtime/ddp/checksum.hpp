// A fast non-cryptographic checksum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun {

/// Returns the checksum of `bytes`, starting from `seed`. Limited by memory bandwidth.
std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed);

}  // namespace ddprun
