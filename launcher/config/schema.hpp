// The JSON Schema of configuration files, generated from the option table. Pure.
#pragma once

#include <string>

namespace ddprun {

/// Returns the schema (draft 2020-12), for editors. Only `ddprun config check` detects
/// contradictions between keys.
std::string config_schema();

}  // namespace ddprun
