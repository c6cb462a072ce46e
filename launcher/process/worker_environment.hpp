// Environments of workers and tools: variables of the agent, additions, and the marker by which
// descendants are found.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ddprun {

/// Returns the environment of this process as NAME=value.
std::vector<std::string> own_environment();

/// Returns the environment of this process without `removed`, overridden by `added` and with the
/// marker, as NAME=value. A run inside a worker of another run keeps the outer marker in addition
/// to its own.
std::vector<std::string> worker_environment(const std::map<std::string, std::string>& added,
                                            const std::vector<std::string>& removed,
                                            const std::string& marker_name,
                                            const std::string& marker_value);

/// Returns the environment of a tool that runs as another user, which can read it: PATH of this
/// process, `added` and the marker.
std::vector<std::string> restricted_environment(const std::map<std::string, std::string>& added,
                                                const std::string& marker_name,
                                                const std::string& marker_value);

}  // namespace ddprun
