// The environment of this process as an EnvironmentLookup. Must not be called while another thread
// changes the environment.
#pragma once

#include <optional>
#include <string>

namespace ddprun {

/// Returns the value of a variable; nullopt if it is not set.
std::optional<std::string> process_environment(const std::string& name);

}  // namespace ddprun
