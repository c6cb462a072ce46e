// Reads files with one JSON object per line, like the launcher's events and the trainer's metrics.
#pragma once

#include "tests/support/program.hpp"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace ddprun::test {

inline std::vector<nlohmann::json> read_json_lines(const std::string& path) {
  std::vector<nlohmann::json> objects;
  for (const auto& line : read_lines(path)) objects.push_back(nlohmann::json::parse(line));
  return objects;
}

}  // namespace ddprun::test
