// Whether two nodes were given the same configuration, and if not, where it differs first. Both
// work on canonical text (json.hpp), so comments, spaces and the order of keys make no difference.
// Pure.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

/// 16 hexadecimal digits (64-bit FNV-1a). It tells configurations apart that differ by accident;
/// against somebody who forges one it is no protection.
std::string config_hash(std::string_view canonical_text);

/// The first path with different values, as "nodes[2].name: \"c\" here, \"d\" there"; empty if the
/// two say the same. "here" is `ours`; a text that is not JSON makes the whole differ.
std::string first_difference(std::string_view ours, std::string_view theirs);

}  // namespace ddprun
