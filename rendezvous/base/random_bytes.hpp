// Random bytes, and bytes as hexadecimal digits in lower case. Any thread may call.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

/// From the kernel. Throws Error{Errc::system} if it has none.
std::string random_bytes(std::size_t count);

/// Two digits for each byte. Allocates once, so that no part of a secret is left behind.
std::string hexadecimal(std::string_view bytes);

/// True if `text` consists of exactly `digits` hexadecimal digits in lower case.
bool is_hexadecimal(std::string_view text, std::size_t digits);

}  // namespace ddprun
