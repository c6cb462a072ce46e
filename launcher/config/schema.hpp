// The JSON Schema of configuration files, made from the tables that check them. Pure.
#pragma once

#include <string>

namespace ddprun {

/// Draft 2020-12, for editors: they complete keys and mark mistakes. Ranges of numbers and what
/// keys say about each other are checked by `ddprun config check` alone.
std::string config_schema();

}  // namespace ddprun
