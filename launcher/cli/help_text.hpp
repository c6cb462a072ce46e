// What --help and --version print, made from the option table. Pure functions.
#pragma once

#include <string>

namespace ddprun {

/// Readable from 60 columns on.
std::string help_text(int columns);

std::string version_text();

}  // namespace ddprun
