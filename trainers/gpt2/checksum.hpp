// Tells contents apart that differ by accident, as fast as memory gives them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trainer::gpt2 {

/// `before` is the checksum of what comes before these bytes, which may be parts of any size; other
/// parts of the same content have another checksum.
std::uint64_t checksum_of(std::span<const std::byte> bytes, std::uint64_t before = 0);

}  // namespace trainer::gpt2
