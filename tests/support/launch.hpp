// Command lines of ddprun for scenario tests, and patterns of its output.
#pragma once

#include "tests/support/program.hpp"

#include <string>
#include <vector>

namespace ddprun::test {

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size()))
    ++found;
  return found;
}

/// Returns the command of ddprun (or a link to it) with these options; each worker runs `script`
/// with sh.
inline std::vector<std::string> launch(std::vector<std::string> options, const std::string& script,
                                       const std::string& program = in_bin("ddprun")) {
  std::vector<std::string> arguments = {program};
  arguments.insert(arguments.end(), options.begin(), options.end());
  for (const char* argument : {"--no_python", "/bin/sh", "-c"}) arguments.emplace_back(argument);
  // The launcher replaces $$ by $ in arguments, like torchrun.
  std::string escaped;
  for (const char c : script) escaped += c == '$' ? std::string("$$") : std::string(1, c);
  arguments.push_back(escaped);
  return arguments;
}

}  // namespace ddprun::test
