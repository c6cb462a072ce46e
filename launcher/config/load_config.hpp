// Reads a configuration file and looks at this machine, then asks the pure functions what the file
// means here. The only part of this folder that does input.
#pragma once

#include "launcher/cli/given_values.hpp"
#include "launcher/config/config_file.hpp"
#include "launcher/config/find_node.hpp"

#include <string>
#include <variant>

namespace ddprun {

/// The content of a file, or why it cannot be read. Reads little more than what parse_json takes.
std::variant<std::string, UsageProblem> read_config_text(const std::string& path);

/// What this machine knows about itself, what the operator said left out.
NodeClues gather_node_clues(const EnvironmentLookup& environment);

/// A loader that does all this for the file it is asked for.
ConfigLoader config_loader(const EnvironmentLookup& environment);

/// The same for a file that has been read already.
ConfigLoader config_loader(const EnvironmentLookup& environment, const std::string& text);

/// A reader of what the scheduler says that started this process.
SchedulerReader scheduler_reader(const EnvironmentLookup& environment);

}  // namespace ddprun
