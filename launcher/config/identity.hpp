// Whether two nodes were given the same configuration, and if not, where it differs first. Hash and
// outline are the same for files that differ in comments, spaces and the order of keys. Pure.
#pragma once

#include "launcher/config/json.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

/// 16 hexadecimal digits (64-bit FNV-1a). It tells configurations apart that differ by accident;
/// against somebody who forges one it is no protection.
std::string config_hash(std::string_view canonical_text);

/// The outline of a file with a thousand nodes takes a tenth of it; a node sends it as a part of a
/// message.
inline constexpr std::size_t kOutlineBytesMax = 256U << 10;

/// What may be shown to other nodes to find a difference: the document in canonical form, with a
/// checksum of 16 bits in place of each text, number, boolean and null, and without variables of
/// the environment, which may be secret. Empty if it would be larger than kOutlineBytesMax.
std::string config_outline(const JsonValue& root);

/// The first path at which two outlines differ, as "nodes[2].name"; "the whole" if one is no JSON,
/// empty if they are the same.
std::string first_difference(std::string_view ours, std::string_view theirs);

}  // namespace ddprun
