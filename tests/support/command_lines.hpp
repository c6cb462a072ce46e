// Parses command lines for tests and returns their options or problems.
#pragma once

#include "launcher/cli/command_line.hpp"

#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::test {

using Strings = std::vector<std::string>;
using Variables = std::map<std::string, std::string>;

inline EnvironmentLookup lookup_in(const Variables& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

/// Returns the options of a valid command line, without their origins.
inline LaunchOptions options_of(const Strings& arguments, const Variables& variables = {}) {
  const auto parsed = parse_command_line(arguments, lookup_in(variables));
  if (const auto* problem = std::get_if<UsageProblem>(&parsed)) FAIL(describe(*problem));
  auto options = std::get<LaunchOptions>(parsed);
  options.origins.clear();
  return options;
}

/// Returns the problems of an invalid command line, one per line.
inline std::string problems_of(const Strings& arguments, const Variables& variables = {}) {
  const auto parsed = parse_command_line(arguments, lookup_in(variables));
  const auto* problem = std::get_if<UsageProblem>(&parsed);
  if (problem == nullptr) return "";
  return describe(*problem);
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace ddprun::test
