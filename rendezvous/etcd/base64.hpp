// Bytes as text, as JSON holds them: RFC 4648 with padding. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::etcd {

std::string to_base64(std::string_view bytes);

/// Nothing if the text is not what to_base64() makes.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace ddprun::etcd
