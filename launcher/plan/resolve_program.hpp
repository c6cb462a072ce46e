// Resolves `train.py`, `trainer` or `./trainer` to a file. Pure, given the view of the file system
// in HostFacts.
#pragma once

#include "launcher/cli/launch_options.hpp"
#include "launcher/plan/host_facts.hpp"

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// The beginning of a worker's command line, e.g. {"/usr/bin/python3", "-u", "train.py"}; or what
/// was looked for and where.
///
/// A name with a slash is that file. A script (.py) without a slash is in the working directory, as
/// for Python. Any other bare name is looked for in the working directory first, because that is
/// where torchrun's users expect their programs; then in PATH, so that an activated environment
/// decides as it does in a shell; and last beside ddprun, where a build and an installation keep
/// the programs that come with it, which thus never hide the user's.
std::variant<std::vector<std::string>, std::string> resolve_program(const LaunchOptions& options,
                                                                    const HostFacts& facts);

/// Returns why resolve_program() has chosen this Python interpreter; empty if it has not.
std::string interpreter_origin(const LaunchOptions& options, const HostFacts& facts);

/// Returns true if the program of a command line is a Python interpreter.
bool is_python(const std::vector<std::string>& arguments);

/// Returns the path of ddprun-preflight, which is installed with ddprun, or an error with the
/// folders that were searched.
std::variant<std::filesystem::path, std::string> find_preflight(const HostFacts& facts);

/// Returns the path of a tool in PATH; empty if it is not found.
std::string find_tool(const std::string& name, const HostFacts& facts);

}  // namespace ddprun
