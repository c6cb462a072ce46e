// Encodes bytes as text for JSON: RFC 4648 with padding. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ddprun::etcd {

std::string to_base64(std::string_view bytes);

/// Returns nullopt if the text is not valid output of to_base64().
std::optional<std::string> from_base64(std::string_view text);

}  // namespace ddprun::etcd
