// Configuration files made from what people have: the hostfile of mpirun or DeepSpeed, or a command
// line of torchrun. Pure.
#pragma once

#include "launcher/cli/given_values.hpp"

#include <string>
#include <string_view>
#include <variant>

namespace ddprun {

/// Lines "[user@]host slots=N" (mpirun, DeepSpeed) or "host:N" (MPICH), and comments behind '#'.
/// Slots become nproc_per_node, hosts with the same number in a row one after the other. The text
/// of a configuration file, or "name:line: problem" for each line that is neither.
std::variant<std::string, UsageProblem> convert_hostfile(const std::string& name,
                                                         std::string_view text);

/// What these arguments give, each option in its section; or what is wrong with them.
std::variant<std::string, UsageProblem> convert_arguments(
    const std::vector<std::string>& arguments);

}  // namespace ddprun
