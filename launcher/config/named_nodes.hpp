// The nodes of a configuration file as they are known on each of them: names, addresses and how
// many workers each is to have. Pure.
#pragma once

#include "launcher/config/config_file.hpp"

#include <vector>

namespace ddprun {

/// In the file's order. `given` by arguments and variables here goes before what the file says, as
/// it would there if it was given there, too.
std::vector<NamedNode> named_nodes(const ConfigFile& file, const GivenValues& given,
                                   const EnvironmentLookup& environment);

}  // namespace ddprun
