// Loads a configuration file for this machine. The only part of this folder that does I/O.
#pragma once

#include "launcher/cli/given_values.hpp"
#include "launcher/config/config_file.hpp"
#include "launcher/config/find_node.hpp"

#include <string>
#include <variant>

namespace ddprun {

/// Returns the content of a file, or the reason why it cannot be read. Reads at most one byte more
/// than parse_json() accepts.
std::variant<std::string, UsageProblem> read_config_text(const std::string& path);

/// Returns the host names, addresses and environment of this machine.
NodeClues gather_node_clues(const EnvironmentLookup& environment);

/// Returns a loader that reads, checks and resolves the requested file.
ConfigLoader config_loader(const EnvironmentLookup& environment);

/// Returns a loader for a file that has already been read.
ConfigLoader config_loader(const EnvironmentLookup& environment, const std::string& text);

/// Returns a reader of the variables of the scheduler that started this process.
SchedulerReader scheduler_reader(const EnvironmentLookup& environment);

}  // namespace ddprun
