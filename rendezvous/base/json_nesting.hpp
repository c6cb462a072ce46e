// The nesting of JSON text from writers that are not trusted. Pure; thread-safe.
#pragma once

#include <string_view>

namespace ddprun {

/// Maximum nesting of such text. Valid documents have at most 10 levels.
inline constexpr int kJsonNestingMax = 64;

/// Returns true if the text is nested more deeply than kJsonNestingMax. Check before parsing: each
/// level takes memory, and 1 MiB has room for half a million levels.
bool is_nested_too_deeply(std::string_view json);

}  // namespace ddprun
