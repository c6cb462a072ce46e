// Result of a check.
#pragma once

#include <optional>
#include <string>

namespace ddprun {

/// Why something is wrong, for the operator; nullopt: nothing is.
using Problem = std::optional<std::string>;

}  // namespace ddprun
