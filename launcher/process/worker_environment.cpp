#include "launcher/process/worker_environment.hpp"

#include <algorithm>
#include <unistd.h>

namespace ddprun {

std::vector<std::string> own_environment() {
  std::vector<std::string> environment;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    environment.emplace_back(*entry);
  }
  return environment;
}

std::vector<std::string> worker_environment(const std::map<std::string, std::string>& added,
                                            const std::vector<std::string>& removed,
                                            const std::string& marker_name,
                                            const std::string& marker_value) {
  std::vector<std::string> environment;
  std::string marker = marker_name + "=" + marker_value;
  for (const auto& text : own_environment()) {
    const auto name = text.substr(0, text.find('='));
    if (name == marker_name) {
      marker += ":" + text.substr(std::min(name.size() + 1, text.size()));
    } else if (!added.contains(name) &&
               std::find(removed.begin(), removed.end(), name) == removed.end()) {
      environment.push_back(text);
    }
  }
  for (const auto& [name, value] : added) environment.push_back(name + "=" + value);
  environment.push_back(std::move(marker));
  return environment;
}

std::vector<std::string> restricted_environment(const std::map<std::string, std::string>& added,
                                                const std::string& marker_name,
                                                const std::string& marker_value) {
  auto environment = worker_environment(added, {}, marker_name, marker_value);
  std::erase_if(environment, [&](const std::string& text) {
    const auto name = text.substr(0, text.find('='));
    return name != "PATH" && name != marker_name && !added.contains(name);
  });
  return environment;
}

}  // namespace ddprun
