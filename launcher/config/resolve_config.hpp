// What a configuration file means on one of its nodes: a value for each option that it sets there,
// with references to variables replaced. Pure.
#pragma once

#include "launcher/config/config_file.hpp"
#include "launcher/config/find_node.hpp"

#include <variant>

namespace ddprun {

/// A node's own entry beats "defaults". What follows from "nodes" stands in for nnodes, node_rank,
/// local_addr and rdzv_endpoint where neither the file sets them nor `given`, which is what
/// arguments and variables say. References see the environment, node.name, node.index and
/// node.address.
std::variant<ConfigValues, UsageProblem> resolve_config(const ConfigFile& file,
                                                        const FoundNode& node,
                                                        const GivenValues& given,
                                                        const EnvironmentLookup& environment);

}  // namespace ddprun
