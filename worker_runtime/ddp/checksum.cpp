#include "worker_runtime/ddp/checksum.hpp"

#include <array>
#include <cstring>

namespace ddprun {

namespace {

// Odd numbers without pattern: fractions of the golden ratio and the square root of 5, times 2^64.
constexpr std::uint64_t kFirst = 0x9e37'79b9'7f4a'7c15;
constexpr std::uint64_t kSecond = 0x3c6e'f372'fe94'f82b;

std::uint64_t mix(std::uint64_t state, std::uint64_t word) {
  state = (state ^ word) * kFirst;
  return state ^ (state >> 32);
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed) {
  // Four independent chains, so that multiplications overlap.
  std::array<std::uint64_t, 4> lanes = {seed, seed ^ kFirst, seed ^ kSecond, ~seed};
  std::array<std::uint64_t, 4> words;
  const std::uint64_t size = bytes.size();
  for (; bytes.size() >= sizeof words; bytes = bytes.subspan(sizeof words)) {
    std::memcpy(words.data(), bytes.data(), sizeof words);
    for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = mix(lanes[i], words[i]);
  }
  words = {};
  if (!bytes.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
  for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = mix(lanes[i], words[i]);
  std::uint64_t result = mix(size, kSecond);
  for (const auto lane : lanes) result = mix(result, lane);
  return result;
}

}  // namespace ddprun
