// Detects whether two nodes have the same configuration, and finds the first difference. Hash and
// outline do not depend on comments, spaces and the order of keys. Pure.
#pragma once

#include "launcher/config/json.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

/// Returns 16 hexadecimal digits (64-bit FNV-1a). The hash detects accidental differences, not
/// forgeries.
std::string config_hash(std::string_view canonical_text);

/// Maximum bytes of an outline, which is part of a message: ten times the size for a file with a
/// thousand nodes.
inline constexpr std::size_t kOutlineBytesMax = 256U << 10;

/// Returns a summary of the document in which nodes look for differences: its canonical form with a
/// 16-bit checksum instead of each scalar. Omits environment variables, which may be secret.
/// Returns an empty text if the summary exceeds kOutlineBytesMax.
std::string config_outline(const JsonValue& root);

/// Returns the first path at which two outlines differ, such as "nodes[2].name"; "the whole" if an
/// outline is not JSON; empty if the outlines are equal.
std::string first_difference(std::string_view ours, std::string_view theirs);

}  // namespace ddprun
