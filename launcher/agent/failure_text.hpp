// Messages and exit codes for exceptions.
#pragma once

#include <exception>
#include <string>

namespace ddprun {

/// Returns the exception's message. For Boost's exceptions, whose messages contain source
/// locations, returns the system's message and a remedy instead.
std::string failure_text(const std::exception_ptr& failure);

/// Returns the exit code of a process that ends with the exception: the code for usage errors or
/// the code for failures.
int exit_code_of(const std::exception_ptr& failure);

}  // namespace ddprun
