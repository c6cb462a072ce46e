// Says why a worker could not be started so that the operator can put it right.
#pragma once

#include "launcher/process/process_start.hpp"

#include <string>

namespace ddprun {

/// A sentence: the program, the reason and a hint. Looks at the program's file to tell a missing
/// program from a missing interpreter and the like. `folder` is where it was to run; empty: this
/// process' folder.
std::string describe_start_failure(const StartFailure& failure, const std::string& program,
                                   const std::string& folder);

}  // namespace ddprun
