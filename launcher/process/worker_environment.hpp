// The environments that workers and tools are started with: variables of the agent's, what is
// added, and the mark by which descendants are found.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ddprun {

/// This process' environment, as NAME=value.
std::vector<std::string> own_environment();

/// This process' environment without `removed`, with `added` laid over it and the marker put in, as
/// NAME=value. A run inside a worker of another run keeps the outer marker beside its own.
std::vector<std::string> worker_environment(const std::map<std::string, std::string>& added,
                                            const std::vector<std::string>& removed,
                                            const std::string& marker_name,
                                            const std::string& marker_value);

/// For a tool that runs as another user, which can read it: PATH of this process' environment, then
/// `added` and the marker.
std::vector<std::string> restricted_environment(const std::map<std::string, std::string>& added,
                                                const std::string& marker_name,
                                                const std::string& marker_value);

}  // namespace ddprun
