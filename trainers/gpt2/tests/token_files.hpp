// Token files like those of trainers/gpt2/prepare_text, and damaged ones.
#pragma once

#include "tests/support/program.hpp"

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace ddprun::test {

struct TokenFileHeader {
  char magic[8] = {'d', 'd', 'p', 'r', 'u', 'n', 't', 'k'};
  std::uint32_t version = 1;
  std::uint32_t vocabulary = 0;
  std::uint64_t tokens = 0;
};

inline void write_token_file(const std::string& path, const TokenFileHeader& header,
                             const std::vector<std::uint16_t>& tokens) {
  std::string content(sizeof header, '\0');
  std::memcpy(content.data(), &header, sizeof header);
  for (const std::uint16_t token : tokens) {
    content += static_cast<char>(token & 0xffU);
    content += static_cast<char>(token >> 8U);
  }
  write_file(path, content);
}

inline void write_token_file(const std::string& path, std::uint32_t vocabulary,
                             const std::vector<std::uint16_t>& tokens) {
  write_token_file(path, {.vocabulary = vocabulary, .tokens = tokens.size()}, tokens);
}

/// Returns predictable tokens: ascending numbers with occasional jumps.
inline std::vector<std::uint16_t> guessable_tokens(std::size_t count, std::uint32_t vocabulary) {
  std::mt19937 random(17);
  std::vector<std::uint16_t> tokens(count);
  std::uint32_t token = 0;
  for (auto& one : tokens) {
    token = random() % 16 == 0 ? static_cast<std::uint32_t>(random()) : token + 1;
    token %= vocabulary;
    one = static_cast<std::uint16_t>(token);
  }
  return tokens;
}

}  // namespace ddprun::test
