// Cryptography of the secret with published vectors, invalid proofs, and seals.
#include "rendezvous/security/handshake.hpp"

#include "rendezvous/base/random_bytes.hpp"
#include "rendezvous/security/seal.hpp"
#include "rendezvous/wire/bytes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace handshake_test {

using namespace ddprun;
using namespace ddprun::security;

namespace {

std::string counted(int first, int last) {
  std::string bytes;
  for (int value = first; value <= last; ++value) bytes += static_cast<char>(value);
  return bytes;
}

/// HMAC pads shorter keys with zeros.
Key key_of(const std::string& bytes) {
  std::array<char, kDigestBytes> all{};
  std::copy(bytes.begin(), bytes.end(), all.begin());
  return Key(all);
}

Secret secret_of(char letter) {
  return Secret::from_bytes(std::string(40, letter), "a test");
}

std::string nonce_of(char letter) {
  return std::string(kDigestBytes, letter);
}

/// Results of the handshake at an agent and a coordinator.
struct Meeting {
  char agent_secret = 's', coordinator_secret = 's';
  std::string agent_prologue = "v2", coordinator_prologue = "v2";
  std::size_t changed_hello = std::string::npos;  ///< index of a byte that is modified in transit
  std::size_t changed_challenge = std::string::npos;

  struct Opinions {
    bool agent_is_convinced, coordinator_is_convinced;
    bool operator==(const Opinions&) const = default;
  };

  Opinions hold() const {
    const auto ours = secret_of(agent_secret);
    const auto theirs = secret_of(coordinator_secret);
    AgentHandshake agent(ours, agent_prologue, "run", nonce_of('a'));
    CoordinatorHandshake coordinator(theirs, coordinator_prologue, nonce_of('c'));
    const auto challenge = coordinator.challenge(changed(agent.hello(), changed_hello));
    const bool is_convinced = agent.is_proof(changed(challenge, changed_challenge));
    return {is_convinced, coordinator.is_proof(agent.answer())};
  }

  static std::string changed(std::string bytes, std::size_t index) {
    if (index < bytes.size()) bytes[index] = static_cast<char>(bytes[index] ^ 1);
    return bytes;
  }
};

std::string message(const std::string& body) {
  std::string bytes;
  wire::append_integer(bytes, static_cast<std::uint32_t>(body.size()));
  return bytes + body;
}

constexpr std::size_t kBytesMax = 100;

struct Unsealed {
  std::vector<std::string> messages{};
  bool has_problem = false;

  bool operator==(const Unsealed&) const = default;
};

Unsealed unseal(std::string_view bytes, std::size_t piece, char key = 'k') {
  Unsealer unsealer(key_of(std::string(32, key)), kBytesMax);
  Unsealed result;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    unsealer.feed(bytes.substr(at, piece));
    while (auto next = unsealer.next()) result.messages.push_back(*next);
  }
  result.has_problem = !unsealer.problem().empty();
  return result;
}

Sealer sealer() {
  return Sealer(key_of(std::string(32, 'k')));
}

}  // namespace

TEST_SUITE("handshake") {
  TEST_CASE("handshake: HMAC and HKDF match RFC 4231 and RFC 5869") {
    CHECK(hexadecimal(authenticate(key_of(std::string(20, '\x0b')), "Hi There")) ==
          "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    CHECK(hexadecimal(authenticate(key_of("Jefe"), "what do ya want for nothing?")) ==
          "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    const auto key = derive_key(std::string(22, '\x0b'), counted(0, 12), counted(0xf0, 0xf9));
    CHECK(hexadecimal(key.bytes()) ==
          "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf");
  }

  TEST_CASE("handshake: the bytes match docs/agents_protocol.md") {
    const auto secret = secret_of('s');
    const std::string prologue = std::string("DDPRUN/6\n") + '\1';
    AgentHandshake agent(secret, prologue, "run", nonce_of('a'));
    CoordinatorHandshake coordinator(secret, prologue, nonce_of('c'));
    CHECK(agent.hello().substr(0, kDigestBytes) == nonce_of('a'));
    CHECK(hexadecimal(agent.hello().substr(kDigestBytes)) ==
          "9ad4640af17c9fce8cc78d7d6d4d2830c74f6ead9eece3e055e90eb9309f311a");
    const auto challenge = coordinator.challenge(agent.hello());
    CHECK(challenge.substr(0, kDigestBytes) == nonce_of('c'));
    CHECK(hexadecimal(challenge.substr(kDigestBytes)) ==
          "09a8eac7a2e4b4da64e6dcbc5b8017c49ade172412c6b1f2100e2cb68f481ac5");
    REQUIRE(agent.is_proof(challenge));
    CHECK(hexadecimal(agent.answer()) ==
          "57bea1b77dd7c29f77abb1c9ec33ee55f09177c77858c831e1bf468878a5f697");
    auto keys = agent.keys();
    const auto heartbeat = message(std::string("\1\1\0\0\0\0\0\0\0", 9));
    const auto sealed = Sealer(std::move(keys.from_agent)).seal(heartbeat);
    CHECK(hexadecimal(sealed.substr(heartbeat.size())) == "115097b8f89fbefb6d722db4ea77ff26");
  }

  TEST_CASE("handshake: random_bytes() returns the requested number of different bytes") {
    CHECK(random_bytes(0).empty());
    CHECK(random_bytes(1000).size() == 1000);
    CHECK(random_bytes(32) != random_bytes(32));
  }

  TEST_CASE("handshake: authentication succeeds only if both sides have the secret") {
    CHECK(Meeting{}.hold() == Meeting::Opinions{true, true});
    CHECK(Meeting{.agent_secret = 'x'}.hold() == Meeting::Opinions{false, false});
    CHECK(Meeting{.coordinator_secret = 'x'}.hold() == Meeting::Opinions{false, false});
    // The handshake fails if the sides have received different bytes.
    CHECK(Meeting{.agent_prologue = "v1"}.hold() == Meeting::Opinions{false, false});
    for (std::size_t i = 0; i < kHelloBytes; ++i) {
      CHECK(Meeting{.changed_hello = i}.hold() == Meeting::Opinions{false, false});
    }
    for (std::size_t i = 0; i < kChallengeBytes; ++i) {
      CHECK(Meeting{.changed_challenge = i}.hold() == Meeting::Opinions{false, false});
    }
  }

  TEST_CASE("handshake: a proof is invalid in any other connection or run") {
    const auto secret = secret_of('s');
    AgentHandshake agent(secret, "v2", "run", nonce_of('a'));
    CoordinatorHandshake coordinator(secret, "v2", nonce_of('c'));
    const auto challenge = coordinator.challenge(agent.hello());
    REQUIRE(agent.is_proof(challenge));
    REQUIRE(coordinator.is_proof(agent.answer()));

    // Reflection: a side without the secret returns a proof that it has received.
    CHECK_FALSE(coordinator.is_proof(challenge.substr(kDigestBytes)));
    AgentHandshake mirrored(secret, "v2", "run", nonce_of('a'));
    CHECK_FALSE(mirrored.is_proof(nonce_of('c') + agent.answer()));
    // Replay of recorded messages of an agent and of a coordinator.
    CoordinatorHandshake next(secret, "v2", nonce_of('d'));
    next.challenge(agent.hello());
    CHECK_FALSE(next.is_proof(agent.answer()));
    AgentHandshake other(secret, "v2", "run", nonce_of('b'));
    CHECK_FALSE(other.is_proof(challenge));
    // Forwarded into another run with the same secret.
    AgentHandshake elsewhere(secret, "v2", "another run", nonce_of('a'));
    CHECK_FALSE(elsewhere.is_proof(challenge));
  }

  TEST_CASE("handshake: an agent answers a wrong proof with zeros instead of its own proof") {
    const auto ours = secret_of('s');
    const auto theirs = secret_of('t');
    AgentHandshake agent(ours, "v2", "run", nonce_of('a'));
    CoordinatorHandshake coordinator(theirs, "v2", nonce_of('c'));
    CHECK_FALSE(agent.is_proof(coordinator.challenge(agent.hello())));
    CHECK(agent.answer() == std::string(kProofBytes, '\0'));
  }

  TEST_CASE("handshake: each direction of each connection has a separate key") {
    const auto secret = secret_of('s');
    AgentHandshake agent(secret, "v2", "run", nonce_of('a'));
    CoordinatorHandshake coordinator(secret, "v2", nonce_of('c'));
    REQUIRE(agent.is_proof(coordinator.challenge(agent.hello())));
    const auto ours = agent.keys();
    const auto theirs = coordinator.keys();
    CHECK(ours.from_agent.bytes() == theirs.from_agent.bytes());
    CHECK(ours.from_coordinator.bytes() == theirs.from_coordinator.bytes());
    CHECK(ours.from_agent.bytes() != ours.from_coordinator.bytes());
    CoordinatorHandshake next(secret, "v2", nonce_of('d'));
    next.challenge(agent.hello());
    CHECK(next.keys().from_agent.bytes() != ours.from_agent.bytes());
  }

  TEST_CASE("handshake: a moved-from key or secret is erased") {
    auto key = key_of(std::string(32, 'k'));
    const Key other(std::move(key));
    CHECK(key.bytes() == std::string(32, '\0'));  // NOLINT(bugprone-use-after-move)
    CHECK(other.bytes() == std::string(32, 'k'));
    auto secret = secret_of('s');
    const Secret moved(std::move(secret));
    CHECK(secret.bytes().empty());  // NOLINT(bugprone-use-after-move)
    CHECK(moved.bytes() == std::string(40, 's'));
  }
}

TEST_SUITE("seals") {
  TEST_CASE("seals: messages are decoded for any size of reads") {
    auto sealing = sealer();
    const std::vector<std::string> messages = {message("one"), message(""), message("three")};
    std::string bytes;
    for (const auto& each : messages) bytes += sealing.seal(each);
    for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
      CHECK(unseal(bytes, piece) == Unsealed{messages, false});
    }
  }

  TEST_CASE("seals: a changed byte is detected before its message is delivered") {
    auto sealing = sealer();
    const auto first = sealing.seal(message("one"));
    const auto both = first + sealing.seal(message("two"));
    for (std::size_t i = 0; i < both.size(); ++i) {
      auto changed = both;
      changed[i] = static_cast<char>(changed[i] ^ 1);
      const auto opened = unseal(changed, 7);
      CHECK(opened.messages.size() == (i < first.size() ? 0 : 1));
      // With a larger length, the receiver waits for more bytes, and then the seal is invalid.
      CHECK(unseal(changed + std::string(kBytesMax, 'x'), 7).has_problem);
    }
  }

  TEST_CASE("seals: a repeated or omitted or swapped or reflected message is detected") {
    auto sealing = sealer();
    const auto one = sealing.seal(message("one"));
    const auto two = sealing.seal(message("two"));
    CHECK(unseal(one + one, 5) == Unsealed{{message("one")}, true});
    CHECK(unseal(two, 5) == Unsealed{{}, true});
    CHECK(unseal(two + one, 5) == Unsealed{{}, true});
    CHECK(unseal(one + two, 5, 'o') == Unsealed{{}, true});  // the other direction's key
  }

  TEST_CASE("seals: a too long message is rejected before its memory is allocated") {
    Unsealer unsealer(key_of("k"), kBytesMax);
    std::string length;
    wire::append_integer(length, std::uint32_t{kBytesMax + 1});
    unsealer.feed(length);
    CHECK_FALSE(unsealer.next());
    CHECK(unsealer.problem() == "sent a message of 101 bytes (at most 100)");
    auto sealing = sealer();
    const auto longest = message(std::string(kBytesMax, 'x'));
    CHECK(unseal(sealing.seal(longest), 9) == Unsealed{{longest}, false});
  }
}

}  // namespace handshake_test
