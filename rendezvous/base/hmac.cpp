#include "rendezvous/base/hmac.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

namespace ddprun {

namespace {

constexpr std::size_t kBlockBytes = 64;
constexpr std::size_t kLengthBytes = 8;
using Block = std::array<std::uint8_t, kBlockBytes>;
using State = std::array<std::uint32_t, 8>;

/// The first 32 bits of the fractional parts of the square roots of the first eight primes.
constexpr State kStart = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                          0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

/// First 32 bits of the fractional parts of the cube roots of the first 64 primes.
constexpr std::array<std::uint32_t, 64> kRounds = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t big_endian(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 24U | std::uint32_t{bytes[1]} << 16U |
         std::uint32_t{bytes[2]} << 8U | std::uint32_t{bytes[3]};
}

/// Named as in FIPS 180-4, 6.2.2.
void compress(State& state, const std::uint8_t* block) {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t t = 0; t < 16; ++t) w[t] = big_endian(block + 4 * t);
  for (std::size_t t = 16; t < w.size(); ++t) {
    const std::uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3U);
    const std::uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10U);
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (std::size_t t = 0; t < w.size(); ++t) {
    const std::uint32_t sum1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + sum1 + ((e & f) ^ (~e & g)) + kRounds[t] + w[t];
    const std::uint32_t sum0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = sum0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const State sums = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += sums[i];
}

class Sha256 {
 public:
  void add(std::string_view message) {
    bytes_ += message.size();
    while (!message.empty()) {
      const std::size_t part = std::min(message.size(), block_.size() - used_);
      std::memcpy(block_.data() + used_, message.data(), part);
      message.remove_prefix(part);
      used_ += part;
      if (used_ == block_.size()) end_block();
    }
  }

  Digest finish() {
    const std::uint64_t bits = bytes_ * 8;
    block_[used_++] = 0x80;
    if (used_ > block_.size() - kLengthBytes) {
      fill(block_.size());
      end_block();
    }
    fill(block_.size() - kLengthBytes);
    for (std::size_t i = 0; i < kLengthBytes; ++i)
      block_[used_++] = static_cast<std::uint8_t>(bits >> (56U - 8U * i));
    end_block();
    Digest digest{};
    for (std::size_t i = 0; i < digest.size(); ++i)
      digest[i] = static_cast<std::uint8_t>(state_[i / 4] >> (24U - 8U * (i % 4)));
    return digest;
  }

 private:
  void fill(std::size_t end) {
    std::fill(block_.begin() + static_cast<std::ptrdiff_t>(used_),
              block_.begin() + static_cast<std::ptrdiff_t>(end), std::uint8_t{0});
    used_ = end;
  }
  void end_block() {
    compress(state_, block_.data());
    used_ = 0;
  }

  State state_ = kStart;
  Block block_{};
  std::size_t used_ = 0;  ///< bytes of `block_`
  std::uint64_t bytes_ = 0;
};

}  // namespace

Digest sha256(std::string_view message) {
  Sha256 hash;
  hash.add(message);
  return hash.finish();
}

Digest hmac_sha256(std::string_view key, std::string_view message) {
  Digest short_key{};
  if (key.size() > kBlockBytes) {
    short_key = sha256(key);
    key = bytes_of(short_key);
  }
  std::string pad(kBlockBytes, '\0');
  const auto fill_pad = [&](unsigned char with) {
    for (std::size_t i = 0; i < pad.size(); ++i)
      pad[i] = static_cast<char>((i < key.size() ? static_cast<unsigned char>(key[i]) : 0U) ^ with);
  };
  fill_pad(0x36);
  Sha256 inner;
  inner.add(pad);
  inner.add(message);
  const Digest digest = inner.finish();
  fill_pad(0x5c);
  Sha256 outer;
  outer.add(pad);
  outer.add(bytes_of(digest));
  return outer.finish();
}

std::string_view bytes_of(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

bool are_equal(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

bool are_equal(const Digest& a, const Digest& b) {
  return are_equal(bytes_of(a), bytes_of(b));
}

}  // namespace ddprun
