// This process' environment, for the functions that take an EnvironmentLookup. Not to be called
// while another thread changes the environment.
#pragma once

#include <optional>
#include <string>

namespace ddprun {

/// The value of a variable; nothing if it is not set.
std::optional<std::string> process_environment(const std::string& name);

}  // namespace ddprun
