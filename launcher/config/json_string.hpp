// Reads one character of a JSON string, plain or escaped. Used by the parser of json.hpp. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {

struct JsonCharacter {
  std::string text{};     ///< character in UTF-8
  std::size_t bytes = 1;  ///< length in the source; at least 1
  std::string problem{};  ///< reason why it is invalid; empty: valid
};

/// Returns the character at the start of `rest`, which must not be empty.
JsonCharacter next_character(std::string_view rest);

}  // namespace ddprun
