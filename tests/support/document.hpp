// Extracts the code of documents, for tests that compile and run it.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

namespace ddprun::test {

inline std::string read_source(const std::string& path) {
  std::ifstream file(std::string(DDPRUN_SOURCE_DIR) + "/" + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns the C++ blocks of a document, separated by an empty line.
inline std::string code_shown_in(const std::string& document) {
  const std::string begin = "```cpp\n";
  const std::string text = read_source(document);
  std::string code;
  for (auto at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1)) {
    const auto from = at + begin.size();
    code += (code.empty() ? "" : "\n") + text.substr(from, text.find("```", from) - from);
  }
  return code;
}

/// Returns the content of the unnamed namespace of a test's source.
inline std::string code_compiled_in(const std::string& source) {
  const std::string begin = "\nnamespace {\n\n";
  const std::string text = read_source(source);
  const auto from = text.find(begin) + begin.size();
  return text.substr(from, text.find("\n}  // namespace\n", from) - from);
}

}  // namespace ddprun::test
