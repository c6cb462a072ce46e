// Text of operating system errors, with a hint to a limit that can be raised.
#pragma once

#include <string>

namespace ddprun {

/// The text of an errno value; of a lack of descriptors with the limit that was reached:
/// Returns text such as "Too many open files (see ulimit -n)".
std::string error_text(int error_number);

}  // namespace ddprun
