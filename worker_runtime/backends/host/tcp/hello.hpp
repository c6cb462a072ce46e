// The first bytes of a connection between two ranks, by which each proves to the other that it
// knows the key of the group:
//
//   caller: Hello        -> listener: Answer        -> caller: Digest
//
// A proof is an HMAC over both Hellos under a key that no message contains. It is worth nothing on
// another connection (nonces), in the other direction (the label), and for other ranks or groups.
// What follows on the connection is neither encrypted nor authenticated. All sizes are fixed, so
// that nothing is allocated for callers without the key. Integers have the byte order of the
// machine; the magic number tells of another one.
#pragma once

#include "rendezvous/base/hmac.hpp"

#include <array>
#include <cstdint>

namespace ddprun::tcp {

struct Hello {
  static constexpr std::uint64_t kMagic = 0x6464'7072'7463'0002;  // "ddprtc" and a version

  std::uint64_t magic = kMagic;
  std::int32_t from = -1;
  std::int32_t to = -1;
  std::array<std::uint8_t, 16> nonce = {};
};

struct Answer {
  Hello hello;
  Digest proof = {};
};

/// With a new nonce of the kernel. Throws Error{Errc::system} if it has none.
Hello make_hello(int from, int to);

/// True if it is of this version, from `from` and to `to`. Says nothing of the key.
bool is_hello(const Hello& hello, int from, int to);

/// Which of the two sides gives a proof.
enum class Side : std::uint8_t { caller, listener };

/// The proof that `side` knows the group's key.
Digest prove(Side side, const Digest& key, const Hello& of_caller, const Hello& of_listener);

}  // namespace ddprun::tcp
