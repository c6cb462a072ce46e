// The commands of a run's nodes, compared by the coordinator: two nodes that train different things
// would form one run all the same. Without a configuration file nothing else says what a run is.
// Pure.
#pragma once

#include <cstddef>
#include <string>

namespace ddprun::membership {

/// Of a node's command as it is told. In place of the end of a longer one stands its hash.
inline constexpr std::size_t kCommandBytesMax = 1024;

/// Some dozen bytes more where a command is longer than that.
std::string bounded_command(const std::string& command);

/// What was started on two nodes, from shortly before where it differs; for operators of both.
std::string describe_difference(const std::string& node, const std::string& command,
                                const std::string& other_node, const std::string& other_command);

}  // namespace ddprun::membership
