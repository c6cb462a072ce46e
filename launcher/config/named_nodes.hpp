// Names, addresses and numbers of workers of all nodes of a configuration file. Pure.
#pragma once

#include "launcher/config/config_file.hpp"

#include <vector>

namespace ddprun {

/// Returns the nodes in the order of the file. Values in `given`, from this node's arguments and
/// variables, override the file for all nodes.
std::vector<NamedNode> named_nodes(const ConfigFile& file, const GivenValues& given,
                                   const EnvironmentLookup& environment);

}  // namespace ddprun
