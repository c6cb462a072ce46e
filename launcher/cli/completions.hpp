// The completions of docs/completions as they were when the program was built, to be printed by it.
#pragma once

#include <string_view>

namespace ddprun {

std::string_view bash_completion();
std::string_view zsh_completion();

}  // namespace ddprun
