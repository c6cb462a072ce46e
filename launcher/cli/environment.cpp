#include "launcher/cli/environment.hpp"

#include <cstdlib>

namespace ddprun {

std::optional<std::string> process_environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

}  // namespace ddprun
