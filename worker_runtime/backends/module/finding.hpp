// Finds and loads the shared libraries of backends.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

namespace ddprun::module {

struct FoundEntry {
  void* function = nullptr;  ///< the module's exported function
  std::string path;          ///< path of the module
};

/// Returns the function `entry` of the module "libddprun_`name`.so", or the reason why it is
/// missing. The module stays loaded, since threads of its libraries may outlive the last group.
std::variant<FoundEntry, std::string> find_entry(const std::string& name, const char* entry);

std::string wrong_version(const std::string& path, std::uint32_t version, std::uint32_t needed);

}  // namespace ddprun::module
