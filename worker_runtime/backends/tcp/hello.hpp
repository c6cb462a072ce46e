// The first bytes of a connection between two ranks, in both directions: who speaks, to whom, and
// the token that only ranks of this group know. Fixed size, so that nothing need be allocated for
// strangers. Integers are in the order of the machine; the magic number tells of another one.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace ddprun::tcp {

/// 128 random bits in hexadecimal, new for each group of each round of each run.
inline constexpr std::size_t kTokenBytes = 32;

struct Hello {
  static constexpr std::uint64_t kMagic = 0x6464'7072'7463'0001;  // "ddprtc" and a version

  std::uint64_t magic = kMagic;
  std::int32_t from = -1;
  std::int32_t to = -1;
  std::array<char, kTokenBytes> token = {};
};

/// Pure. Whether `hello` is from `from` to `to` in the group of that token.
bool is_hello(const Hello& hello, const std::string& token, int from, int to);

Hello make_hello(const std::string& token, int from, int to);

}  // namespace ddprun::tcp
