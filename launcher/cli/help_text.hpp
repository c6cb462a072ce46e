// What --help and --version print, made from the option table. Pure functions.
#pragma once

#include "launcher/cli/invocation.hpp"

#include <string>

namespace ddprun {

/// Readable from 60 columns on.
std::string help_text(int columns, const Invocation& invocation = {});

std::string version_text(const Invocation& invocation);

}  // namespace ddprun
