// Detects whether two nodes were given the same configuration, and the first difference. Hash and
// outline are the same for files that differ in comments, spaces and the order of keys. Pure.
#pragma once

#include "launcher/config/json.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

/// Returns 16 hexadecimal digits (64-bit FNV-1a). The hash detects accidental differences, not
/// forgeries.
std::string config_hash(std::string_view canonical_text);

/// Maximum size of an outline, which is part of a message: ten times that of a file with a thousand
/// nodes.
inline constexpr std::size_t kOutlineBytesMax = 256U << 10;

/// Returns a summary of the document with which nodes find a difference: its canonical form with a
/// 16-bit checksum instead of each scalar, and without variables of the environment, which may be
/// secret. Empty if it is larger than kOutlineBytesMax.
std::string config_outline(const JsonValue& root);

/// Returns the first path at which two outlines differ, such as "nodes[2].name"; "the whole" if one
/// is not JSON, empty if they are the same.
std::string first_difference(std::string_view ours, std::string_view theirs);

}  // namespace ddprun
