// SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104). Used by the workers' library, which must not
// depend on OpenSSL because users link it statically. Pure; thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun {

/// Output of SHA-256, or a key of that length.
using Digest = std::array<std::uint8_t, 32>;

Digest sha256(std::string_view message);

Digest hmac_sha256(std::string_view key, std::string_view message);

/// Returns the bytes as text, for the functions above.
std::string_view bytes_of(const Digest& digest);

/// Compares in time that does not depend on where two texts of equal length differ.
bool are_equal(std::string_view a, std::string_view b);
bool are_equal(const Digest& a, const Digest& b);

}  // namespace ddprun
