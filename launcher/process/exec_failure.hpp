// Says why a worker could not be started so that the operator can put it right.
#pragma once

#include "launcher/process/process_start.hpp"

#include <filesystem>
#include <string>

namespace ddprun {

/// Why the interpreter in the first line of this script is not found; empty if it is, or if the
/// file is no script.
std::string problem_of_interpreter(const std::filesystem::path& script);

/// A sentence: the program, the reason and a hint. Looks at the program's file to tell a missing
/// program from a missing interpreter and the like. `folder` is where it was to run; empty: this
/// process' folder.
std::string describe_start_failure(const StartFailure& failure, const std::string& program,
                                   const std::string& folder);

}  // namespace ddprun
