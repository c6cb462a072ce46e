// The output of --help, generated from the option table, and of --version. Pure functions.
#pragma once

#include "launcher/cli/invocation.hpp"

#include <string>
#include <string_view>

namespace ddprun {

/// Returns the help text. `columns` is clamped to a readable width.
std::string help_text(int columns, const Invocation& invocation = {});

/// Wraps each line of a usage text at `columns`, which is clamped to a readable width; continuation
/// lines keep the indentation.
std::string wrap_usage(std::string_view text, int columns);

std::string version_text(const Invocation& invocation);

}  // namespace ddprun
