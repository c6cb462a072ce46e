// "ddprun keygen FILE": creates a secret for runs of several nodes. Blocks on the file.
#pragma once

#include "launcher/cli/given_values.hpp"
#include "launcher/cli/invocation.hpp"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// The text to print, or the problem with the command line.
using KeygenAnswer = std::variant<std::string, UsageProblem>;

/// Runs the command. Returns nullopt if the arguments do not call it. `columns` is the width of the
/// help. Throws Error{Errc::system}, exit code 1, if the file cannot be written.
std::optional<KeygenAnswer> run_keygen_command(const std::vector<std::string>& arguments,
                                               const Invocation& invocation, int columns = 80);

}  // namespace ddprun
