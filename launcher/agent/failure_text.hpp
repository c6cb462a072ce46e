// What an exception says to the operator.
#pragma once

#include <exception>
#include <string>

namespace ddprun {

/// The exception's message. Failures of Boost's, which name the place in its headers, become what
/// the system said and what may help.
std::string failure_text(const std::exception_ptr& failure);

/// Of a process that ends by it: that of a usage error or of a failure.
int exit_code_of(const std::exception_ptr& failure);

}  // namespace ddprun
