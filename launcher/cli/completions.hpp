// Completion scripts for shells, generated from the option table. Pure functions.
#pragma once

#include <string>

namespace ddprun {

/// These functions return a script that completes the command `program`.
std::string bash_completion(const std::string& program);
std::string zsh_completion(const std::string& program);

}  // namespace ddprun
