// Numbers that tell contents apart. Not for adversaries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun {

/// Of the bytes and of `seed`, at about the speed of memory.
std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed);

}  // namespace ddprun
