#include "tests/fuzz/store_target.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

namespace fs = std::filesystem;

TEST_SUITE("fuzz corpus") {
  TEST_CASE("the store keeps its promises on every input of the corpus, and on each cut short") {
    int inputs = 0;
    for (const auto& file : fs::directory_iterator(DDPRUN_SOURCE_DIR "/tests/fuzz/corpus/store")) {
      std::ifstream stream(file.path(), std::ios::binary);
      const std::vector<char> chars(std::istreambuf_iterator<char>(stream), {});
      const std::vector<std::uint8_t> bytes(chars.begin(), chars.end());
      for (std::size_t length = 0; length <= bytes.size(); ++length) {
        ddprun::fuzz::run_store({bytes.data(), length});
      }
      ++inputs;
    }
    CHECK(inputs >= 10);
  }
}
