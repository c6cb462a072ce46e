// A permutation without a table: a Feistel network over the smallest even number of bits that can
// represent n values permutes 0..2^bits-1; results of n or above are permuted again until they are
// below n (cycle walking, Black and Rogaway, 2002). Since 2^bits is at most 4 n, this takes a few
// steps.
#include <ddprun/elastic_sampler.hpp>
#include <ddprun/error.hpp>

#include <bit>
#include <string>

namespace ddprun {

namespace {

/// Enough for a pseudo-random order; not cryptographic.
constexpr int kRounds = 6;

/// The finaliser of SplitMix64 (Steele, Lea, Flood, 2014).
std::uint64_t scramble(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58'476d'1ce4'e5b9;
  value = (value ^ (value >> 27)) * 0x94d0'49bb'1331'11eb;
  return value ^ (value >> 31);
}

std::uint64_t feistel(std::uint64_t value, int half_bits, std::uint64_t seed) {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  std::uint64_t left = value >> half_bits;
  std::uint64_t right = value & mask;
  for (int round = 0; round < kRounds; ++round) {
    const auto key = scramble(seed + 0x9e37'79b9'7f4a'7c15 * static_cast<std::uint64_t>(round + 1));
    const std::uint64_t next = left ^ (scramble(right ^ key) & mask);
    left = right;
    right = next;
  }
  return (left << half_bits) | right;
}

}  // namespace

std::int64_t permuted(std::int64_t index, std::int64_t n, std::uint64_t seed) {
  if (n < 1) {
    throw Error(Errc::usage, "permutation: " + std::to_string(n) + " elements: must be at least 1");
  }
  if (index < 0 || index >= n) {
    throw Error(Errc::usage, "permutation: index " + std::to_string(index) + " is not within 0.." +
                                 std::to_string(n - 1));
  }
  const auto count = static_cast<std::uint64_t>(n);
  if (count < 2) return index;
  const auto half_bits = (static_cast<int>(std::bit_width(count - 1)) + 1) / 2;
  auto value = static_cast<std::uint64_t>(index);
  do {
    value = feistel(value, half_bits, seed);
  } while (value >= count);
  return static_cast<std::int64_t>(value);
}

}  // namespace ddprun
