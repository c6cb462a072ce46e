// "ddprun keygen FILE": a new secret for runs of several nodes. Blocks for the file.
#pragma once

#include "launcher/cli/given_values.hpp"
#include "launcher/cli/invocation.hpp"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// What to print, or what is wrong with the command line.
using KeygenAnswer = std::variant<std::string, UsageProblem>;

/// Returns nothing if the arguments are not this command's: another launcher's name, another first
/// word. Throws Error{Errc::system}, which means exit code 1, if the file is not written.
std::optional<KeygenAnswer> run_keygen_command(const std::vector<std::string>& arguments,
                                               const Invocation& invocation);

}  // namespace ddprun
