// Resolves `train.py`, `trainer` or `./trainer` to a file. Pure, except for the view of the file
// system in HostFacts.
#pragma once

#include "launcher/cli/launch_options.hpp"
#include "launcher/plan/host_facts.hpp"

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// Returns the beginning of a worker's command line, such as {"/usr/bin/python3", "-u",
/// "train.py"}, or an error that lists the searched places.
///
/// A name with a slash is a path. A script (.py) without a slash is in the working directory, like
/// for Python. Any other bare name is searched in PATH, then in ddprun's folder, so ddprun's
/// programs never hide the user's programs.
std::variant<std::vector<std::string>, std::string> resolve_program(const LaunchOptions& options,
                                                                    const HostFacts& facts);

/// Returns why resolve_program() chose this Python interpreter; empty if it chose none.
std::string interpreter_origin(const LaunchOptions& options, const HostFacts& facts);

/// Returns true if the program of a command line is a Python interpreter.
bool is_python(const std::vector<std::string>& arguments);

/// Returns the path of ddprun-preflight, which is installed with ddprun, or an error that lists the
/// searched folders.
std::variant<std::filesystem::path, std::string> find_preflight(const HostFacts& facts);

/// Returns the path of a tool in PATH or else in `other_folder`; empty if it is not found.
std::string find_tool(const std::string& name, const HostFacts& facts,
                      const std::filesystem::path& other_folder = {});

}  // namespace ddprun
