// A hash of byte strings that is equal in all processes and builds. Not secure against deliberate
// collisions.
#pragma once

#include <cstdint>
#include <string_view>

namespace ddprun {

/// Returns the 64-bit FNV-1a hash.
constexpr std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t value = 0xcbf2'9ce4'8422'2325;
  for (const char byte : text) value = (value ^ static_cast<unsigned char>(byte)) * 0x100'0000'01b3;
  return value;
}

}  // namespace ddprun
