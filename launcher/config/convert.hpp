// Configuration files made from what people have: the hostfile of mpirun or DeepSpeed, or a command
// line of torchrun. A run of several nodes needs a secret, of which those know nothing: the file
// names one. Pure.
#pragma once

#include "launcher/cli/given_values.hpp"

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun {

struct ConvertedFile {
  std::string text;
  std::vector<std::string> notes{};  ///< what is still to be done, for the operator
};

/// Lines "[user@]host slots=N" (mpirun, DeepSpeed) or "host:N" (MPICH), and comments behind '#'.
/// Slots become nproc_per_node; a host without them has as many as lines (PBS). A configuration
/// file, or "name:line: problem" for each line that is neither.
std::variant<ConvertedFile, UsageProblem> convert_hostfile(const std::string& name,
                                                           std::string_view text);

/// What these arguments give, each option in its section; or what is wrong with them.
std::variant<ConvertedFile, UsageProblem> convert_arguments(
    const std::vector<std::string>& arguments);

}  // namespace ddprun
