#include "tests/support/document.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace document_test {

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

/// The block of a document that begins with "```" and `kind`.
std::string block_in(const std::string& document, const std::string& kind) {
  const std::string begin = "```" + kind + "\n";
  const auto text = ddprun::test::read_source(document);
  const auto from = text.find(begin) + begin.size();
  return text.substr(from, text.find("```", from) - from);
}

const std::string kFolder = "tests/scenario/libtorch_consumer/";

}  // namespace

TEST_SUITE("LibTorch's document") {
  TEST_CASE("LibTorch document: shows the program and CMakeLists.txt that a test builds") {
    CHECK(ddprun::test::code_shown_in("docs/libtorch.md")
              .find(ddprun::test::read_source(kFolder + "together.cpp")) == 0);
    CHECK(block_in("docs/libtorch.md", "cmake") ==
          ddprun::test::read_source(kFolder + "CMakeLists.txt"));
  }

  TEST_CASE("LibTorch document: marks the six lines that differ from a single process") {
    const auto alone = lines_of(ddprun::test::read_source(kFolder + "alone.cpp"));
    std::string changed;
    int count = 0;
    for (const auto& line : lines_of(ddprun::test::read_source(kFolder + "together.cpp"))) {
      if (std::find(alone.begin(), alone.end(), line) != alone.end()) continue;
      changed += line.substr(line.find_first_not_of(' ')) + "\n";
      ++count;
    }
    CHECK(count == 6);
    CHECK(block_in("docs/libtorch.md", "diff") == changed);
  }
}

}  // namespace document_test
