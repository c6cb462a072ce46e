// The output of --help, generated from the option table, and of --version. Pure functions.
#pragma once

#include "launcher/cli/invocation.hpp"

#include <string>

namespace ddprun {

/// `columns` is clamped to a readable width.
std::string help_text(int columns, const Invocation& invocation = {});

std::string version_text(const Invocation& invocation);

}  // namespace ddprun
