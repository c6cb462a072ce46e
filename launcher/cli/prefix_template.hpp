// Template for the prefix of output lines, by the rules of Python's string.Template, like in
// torchrun. Plain data.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun {

/// Maximum size of a template in bytes, far above the width of a terminal.
inline constexpr std::size_t kPrefixBytesMax = 256;

/// What fields without a known name are, and a '$' without a name.
enum class UnknownFields {
  are_problems,
  are_text,  ///< as in torchrun
};

enum class PrefixField {
  none,  ///< plain text
  role_name,
  local_rank,
  rank,
  hostname,  ///< name of the machine
  node_rank,
  attempt,
  stream,  ///< stdout or stderr
  time,    ///< time when the line began
};

struct PrefixPiece {
  PrefixField field = PrefixField::none;
  std::string text;  ///< text of PrefixField::none

  bool operator==(const PrefixPiece&) const = default;
};

/// A prefix template. Without pieces there is no prefix.
struct PrefixTemplate {
  std::vector<PrefixPiece> pieces;

  bool operator==(const PrefixTemplate&) const = default;
};

/// Returns torchrun's default, "[${role_name}${local_rank}]:".
PrefixTemplate default_prefix();

}  // namespace ddprun
