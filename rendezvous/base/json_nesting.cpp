#include "rendezvous/base/json_nesting.hpp"

#include <cstddef>

namespace ddprun {

bool is_nested_too_deeply(std::string_view json) {
  int depth = 0;
  bool is_in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char letter = json[i];
    if (letter == '"') is_in_string = !is_in_string;
    if (is_in_string && letter == '\\') ++i;  // the next character is escaped
    if (is_in_string) continue;
    if (letter == '[' || letter == '{') ++depth;
    if (letter == ']' || letter == '}') --depth;
    if (depth > kJsonNestingMax) return true;
  }
  return false;
}

}  // namespace ddprun
