// The first bytes of a connection between two ranks, by which each proves to the other that it
// knows the key of the group:
//
//   caller: Hello        -> listener: Answer        -> caller: Digest
//
// A proof is an HMAC over both Hellos under a key that no message contains. It is invalid on
// another connection (nonces), in the other direction (the label), and for other ranks or groups.
// Later data on the connection is neither encrypted nor authenticated. All sizes are fixed, so that
// callers without the key cause no allocation. Integers have the byte order of the machine; the
// magic number detects a different one.
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

/// Returns a Hello with a new random nonce. Throws Error{Errc::system} if the kernel provides none.
Hello make_hello(int from, int to);

/// Returns true if `hello` has this version and these ranks. Does not check the key.
bool is_hello(const Hello& hello, int from, int to);

/// The side of a connection that sends a proof.
enum class Side : std::uint8_t { caller, listener };

/// Returns the proof that `side` knows the group's key.
Digest prove(Side side, const Digest& key, const Hello& of_caller, const Hello& of_listener);

}  // namespace ddprun::tcp
