// Who it is that answers where a coordinator of a run is looked for, as far as its first bytes
// show. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::membership {

/// So many bytes tell all that are known.
inline constexpr std::size_t kFirstWordsMax = 16;

/// The end of a sentence about it, "is an HTTP server, no rendezvous of ddprun", by what was
/// `wanted` there; empty: it is nobody known.
std::string describe_foreign(std::string_view first_bytes,
                             const std::string& wanted = "rendezvous of ddprun");

}  // namespace ddprun::membership
