#include "tests/fuzz/dialogue_target.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

namespace fs = std::filesystem;

namespace {

std::vector<std::vector<std::uint8_t>> corpus() {
  std::vector<std::vector<std::uint8_t>> inputs;
  const fs::path folder = DDPRUN_SOURCE_DIR "/tests/fuzz/corpus/dialogue";
  for (const auto& file : fs::directory_iterator(folder)) {
    std::ifstream stream(file.path(), std::ios::binary);
    const std::vector<char> chars(std::istreambuf_iterator<char>(stream), {});
    inputs.emplace_back(chars.begin(), chars.end());
  }
  return inputs;
}

}  // namespace

TEST_SUITE("fuzz corpus") {
  TEST_CASE("strangers learn and move nothing on each input, cut short and with a slip") {
    const auto inputs = corpus();
    CHECK(inputs.size() >= 8);
    std::mt19937 random(20261121);
    for (const auto& input : inputs) {
      for (std::size_t length = 0; length <= input.size(); ++length) {
        ddprun::fuzz::run_dialogue({input.data(), length});
      }
      for (int round = 0; round < 100; ++round) {
        auto changed = input;
        changed[random() % changed.size()] = static_cast<std::uint8_t>(random());
        ddprun::fuzz::run_dialogue(changed);
      }
    }
  }
}
