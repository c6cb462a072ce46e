// Converts a hostfile of mpirun or DeepSpeed, or a command line of torchrun, to a configuration
// file. A file for several nodes names a secret, which they need. Pure.
#pragma once

#include "launcher/cli/given_values.hpp"

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun {

struct ConvertedFile {
  std::string text;
  std::vector<std::string> notes{};  ///< remaining steps for the user
};

/// Converts lines "[user@]host slots=N" (mpirun, DeepSpeed) or "host:N" (MPICH), and comments after
/// '#'. Slots become nproc_per_node; for a host without slots, the number of its lines does (PBS).
/// Returns a configuration file, or "name:line: problem" for each invalid line.
std::variant<ConvertedFile, UsageProblem> convert_hostfile(const std::string& name,
                                                           std::string_view text);

/// Returns a file with each option in its section, or the problems with the arguments.
std::variant<ConvertedFile, UsageProblem> convert_arguments(
    const std::vector<std::string>& arguments);

}  // namespace ddprun
