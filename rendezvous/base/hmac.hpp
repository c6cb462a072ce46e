// SHA-256 (FIPS 180-4) and HMAC with it (RFC 2104), for the workers' library, which its users link
// statically and which is therefore free of OpenSSL. Pure; any thread may call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun {

/// The output of SHA-256; also a key of that length.
using Digest = std::array<std::uint8_t, 32>;

Digest sha256(std::string_view message);

Digest hmac_sha256(std::string_view key, std::string_view message);

/// The bytes as text, for the functions above.
std::string_view bytes_of(const Digest& digest);

/// Takes the same time wherever two texts of one length differ.
bool are_equal(std::string_view a, std::string_view b);
bool are_equal(const Digest& a, const Digest& b);

}  // namespace ddprun
