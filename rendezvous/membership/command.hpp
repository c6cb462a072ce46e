// Compares the commands of a run's nodes. Without a configuration file, this is the only check that
// all nodes run the same program. Pure.
#pragma once

#include <cstddef>
#include <string>

namespace ddprun::membership {

/// Maximum bytes of a command in a message. A hash replaces the end of a longer command.
inline constexpr std::size_t kCommandBytesMax = 1024;

/// Returns the command, shortened to kCommandBytesMax plus a hash if it is longer.
std::string bounded_command(const std::string& command);

/// Returns both commands, starting shortly before their first difference.
std::string describe_difference(const std::string& node, const std::string& command,
                                const std::string& other_node, const std::string& other_command);

}  // namespace ddprun::membership
