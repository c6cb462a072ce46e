// Parses configuration files for tests and returns their meaning or problems.
#pragma once

#include "launcher/config/config_file.hpp"
#include "launcher/config/find_node.hpp"
#include "launcher/config/resolve_config.hpp"
#include "rendezvous/base/text.hpp"
#include "tests/support/command_lines.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>

namespace ddprun::test {

/// Parses a valid file named c.json.
inline ConfigFile config_of(const std::string& text) {
  auto read = read_config("c.json", text);
  if (const auto* problem = std::get_if<UsageProblem>(&read)) FAIL(join(problem->problems, "\n"));
  return std::get<ConfigFile>(std::move(read));
}

/// Returns the problems of a file, one per line; empty if it is valid.
inline std::string config_problems(const std::string& text) {
  const auto read = read_config("c.json", text);
  const auto* problem = std::get_if<UsageProblem>(&read);
  return problem == nullptr ? "" : join(problem->problems, "\n");
}

/// Returns the settings for the node of this index (without "nodes": for any node).
inline std::variant<ConfigValues, UsageProblem> resolved(const std::string& text,
                                                         std::size_t index = 0,
                                                         const Variables& variables = {},
                                                         const GivenValues& given = {}) {
  const auto file = config_of(text);
  FoundNode node{"here", std::nullopt, ""};
  if (!file.nodes.empty()) node = {file.nodes.at(index).name, index, "the test says so"};
  return resolve_config(file, node, given, lookup_in(variables));
}

inline ConfigValues values_of(const std::string& text, std::size_t index = 0,
                              const Variables& variables = {}) {
  auto values = resolved(text, index, variables);
  if (const auto* problem = std::get_if<UsageProblem>(&values)) {
    FAIL(join(problem->problems, "\n"));
  }
  return std::get<ConfigValues>(std::move(values));
}

/// Returns an option's text in the file; "(none)" if the file does not set it.
inline std::string value_in(const ConfigValues& values, const std::string& option) {
  const auto found = values.options.find(find_option(option));
  return found == values.options.end() ? "(none)" : found->second.value;
}

}  // namespace ddprun::test
