// Describes why a worker could not be started, with a remedy.
#pragma once

#include "launcher/process/process_start.hpp"
#include "rendezvous/base/problem.hpp"

#include <filesystem>
#include <string>

namespace ddprun {

/// Returns why the kernel would not execute this file: a missing interpreter of a script, or an
/// unknown format. A file that cannot be read is not checked.
Problem problem_of_format(const std::filesystem::path& program);

/// Returns a sentence with the program, the reason and a hint. Reads the program's file to
/// distinguish for example a missing program from a missing interpreter. `folder` is its working
/// directory; empty: that of this process.
std::string describe_start_failure(const StartFailure& failure, const std::string& program,
                                   const std::string& folder);

}  // namespace ddprun
