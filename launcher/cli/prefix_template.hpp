// Template of the prefix of each output line, by the rules of Python's string.Template as in
// torchrun. Plain data.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun {

/// Maximum size of a template in bytes, far above the length of a line.
inline constexpr std::size_t kPrefixBytesMax = 256;

enum class PrefixField {
  none,  ///< a piece of plain text
  role_name,
  local_rank,
  rank,
  hostname,  ///< the name of the machine
  node_rank,
  attempt,
  stream,  ///< stdout or stderr
  time,    ///< when the line began
};

struct PrefixPiece {
  PrefixField field = PrefixField::none;
  std::string text;  ///< for PrefixField::none

  bool operator==(const PrefixPiece&) const = default;
};

/// No pieces: no prefix.
struct PrefixTemplate {
  std::vector<PrefixPiece> pieces;

  bool operator==(const PrefixTemplate&) const = default;
};

/// Returns torchrun's default, "[${role_name}${local_rank}]:".
PrefixTemplate default_prefix();

}  // namespace ddprun
