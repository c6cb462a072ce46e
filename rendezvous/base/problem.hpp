// Result of a check.
#pragma once

#include <optional>
#include <string>

namespace ddprun {

/// Description of a problem for the operator; nullopt: no problem.
using Problem = std::optional<std::string>;

}  // namespace ddprun
