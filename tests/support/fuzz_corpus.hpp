// Runs the corpus of a fuzzer as a test without a fuzzer.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace ddprun::test {

using FuzzTarget = void (*)(std::span<const std::uint8_t> input);

/// Runs the target on each input of the folder, on each truncated one, and on each with one byte
/// changed, this number of times. The target aborts on a violation.
inline void run_fuzz_corpus(const std::string& name, FuzzTarget target, int inputs_least,
                            int changes) {
  int inputs = 0;
  std::mt19937 random(20261121);
  const std::filesystem::path folder = DDPRUN_SOURCE_DIR "/tests/fuzz/corpus/" + name;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::ifstream stream(file.path(), std::ios::binary);
    const std::vector<char> chars(std::istreambuf_iterator<char>(stream), {});
    const std::vector<std::uint8_t> input(chars.begin(), chars.end());
    REQUIRE_FALSE(input.empty());
    for (std::size_t length = 0; length <= input.size(); ++length) target({input.data(), length});
    for (int i = 0; i < changes; ++i) {
      auto changed = input;
      changed[random() % changed.size()] = static_cast<std::uint8_t>(random());
      target(changed);
    }
    ++inputs;
  }
  CHECK(inputs >= inputs_least);
}

}  // namespace ddprun::test
