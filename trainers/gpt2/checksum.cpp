#include "trainers/gpt2/checksum.hpp"

#include <array>
#include <bit>
#include <cstring>

namespace trainer::gpt2 {

namespace {

constexpr std::size_t kLanes = 4;  // independent multiplications per iteration
using Lanes = std::array<std::uint64_t, kLanes>;

constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15;  // odd, so that the product is invertible

/// Different words give different numbers. The rotation moves the highest bits, which the product
/// does not spread, to the lowest ones.
constexpr std::uint64_t mixed(std::uint64_t number, std::uint64_t word) {
  return std::rotl((number ^ word) * kFactor, 29);
}

}  // namespace

std::uint64_t checksum_of(std::span<const std::byte> bytes, std::uint64_t before) {
  Lanes lanes = {before, before + 1, before + 2, before + 3};
  Lanes words = {};
  const auto add_words = [&] {
    for (std::size_t i = 0; i < kLanes; ++i) lanes[i] = mixed(lanes[i], words[i]);
  };
  const std::uint64_t length = bytes.size();
  for (; bytes.size() >= sizeof words; bytes = bytes.subspan(sizeof words)) {
    std::memcpy(words.data(), bytes.data(), sizeof words);
    add_words();
  }
  words = {};
  if (!bytes.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
  add_words();
  std::uint64_t sum = mixed(before, length);
  for (const std::uint64_t lane : lanes) sum = mixed(sum, lane);
  return mixed(sum ^ (sum >> 32), 0);
}

}  // namespace trainer::gpt2
