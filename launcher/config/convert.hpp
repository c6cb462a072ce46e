// Converts a hostfile of mpirun or DeepSpeed, or a torchrun command line, to a configuration file.
// Files for several nodes name a secret file, which the nodes need. Pure.
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

/// Converts lines "[user@]host slots=N" (mpirun, DeepSpeed) or "host:N" (MPICH); '#' starts a
/// comment. Slots become nproc_per_node; without slots, the number of the host's lines does (PBS).
/// Returns a configuration file, or "name:line: problem" for each invalid line.
std::variant<ConvertedFile, UsageProblem> convert_hostfile(const std::string& name,
                                                           std::string_view text);

/// Returns a file with each option in its section, or problems with the arguments.
std::variant<ConvertedFile, UsageProblem> convert_arguments(
    const std::vector<std::string>& arguments);

}  // namespace ddprun
