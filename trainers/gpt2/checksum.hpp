// A fast non-cryptographic checksum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace trainer::gpt2 {

/// `before`: checksum of the preceding bytes. The division of the content into parts affects the
/// checksum.
std::uint64_t checksum_of(std::span<const std::byte> bytes, std::uint64_t before = 0);

}  // namespace trainer::gpt2
