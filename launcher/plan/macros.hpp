// Macros in the program's arguments, by the rules of Python's string.Template.
#pragma once

#include <string>
#include <string_view>

namespace ddprun {

/// Replaces ${local_rank} and $local_rank with the number, and $$ with a dollar sign. Keeps other
/// names and stray dollar signs.
std::string expand_macros(std::string_view text, int local_rank);

}  // namespace ddprun
