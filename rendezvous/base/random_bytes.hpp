// Random bytes, and conversion of bytes to hexadecimal digits in lower case. Thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

/// Returns random bytes from the kernel. Throws Error{Errc::system} on failure.
std::string random_bytes(std::size_t count);

/// Returns two digits per byte. Allocates only once, so no copy of a secret remains in memory.
std::string hexadecimal(std::string_view bytes);

/// Returns true if `text` is exactly `digits` hexadecimal digits in lower case.
bool is_hexadecimal(std::string_view text, std::size_t digits);

}  // namespace ddprun
