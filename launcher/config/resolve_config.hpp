// Resolves a configuration file for one of its nodes into option values, with references replaced.
// Pure.
#pragma once

#include "launcher/config/config_file.hpp"
#include "launcher/config/find_node.hpp"

#include <variant>

namespace ddprun {

/// Resolves the file. The node's entry overrides "defaults". nnodes, node_rank, local_addr and
/// rdzv_endpoint are derived from "nodes" unless the file or `given` (arguments and variables) sets
/// them. References may name environment variables, node.name, node.index and node.address.
std::variant<ConfigValues, UsageProblem> resolve_config(const ConfigFile& file,
                                                        const FoundNode& node,
                                                        const GivenValues& given,
                                                        const EnvironmentLookup& environment);

}  // namespace ddprun
