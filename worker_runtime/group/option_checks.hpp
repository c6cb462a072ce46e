// Checks of the options of a group. Pure.
#pragma once

#include <ddprun/group_options.hpp>

#include <string>

namespace ddprun {

/// Returns why `options` are invalid; empty if they are valid.
std::string refuse_options(const GroupOptions& options);

/// Throws Error{Errc::usage} if `options` are invalid.
void check_group_options(const GroupOptions& options);

}  // namespace ddprun
