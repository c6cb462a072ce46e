// "ddprun keygen FILE" creates a secret for runs on several nodes. Blocks while writing.
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
/// help. Throws Error{Errc::system} if the file cannot be written; the exit code is then 1.
std::optional<KeygenAnswer> run_keygen_command(const std::vector<std::string>& arguments,
                                               const Invocation& invocation, int columns = 80);

}  // namespace ddprun
