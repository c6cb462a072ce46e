// Mutual authentication of an agent and the coordinator by the run's secret, and derivation of the
// keys that seal later messages; see docs/agents_protocol.md. One value for each side, over frames
// of fixed sizes. Pure: nonces are arguments. membership/dialogue.hpp handles framing.
//
//   agent: hello   -> coordinator: challenge, with its proof   -> agent: its proof
//
// A proof is an HMAC over all previous bytes of both sides, with a key for the prover's role. It is
// not valid on another connection (nonces), in the other direction (roles), or in another run or
// protocol version (both are included).
#pragma once

#include "rendezvous/security/crypto.hpp"
#include "rendezvous/security/secret.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::security {

inline constexpr std::size_t kHelloBytes = 2 * kDigestBytes;      ///< nonce, mark of the run
inline constexpr std::size_t kChallengeBytes = 2 * kDigestBytes;  ///< nonce, proof
inline constexpr std::size_t kProofBytes = kDigestBytes;

/// Sealing keys of both directions; see seal.hpp.
struct SessionKeys {
  Key from_agent;
  Key from_coordinator;
};

class AgentHandshake {
 public:
  /// `prologue`: earlier bytes of the connection. `secret` must outlive this object.
  AgentHandshake(const Secret& secret, std::string_view prologue, std::string_view run_id,
                 std::string_view nonce);

  /// Returns the first frame to send.
  const std::string& hello() const { return hello_; }

  /// Verifies the challenge of kChallengeBytes. Returns false if the coordinator does not know the
  /// secret. Called once.
  bool is_proof(std::string_view challenge);

  /// Returns the answer to the challenge: this side's proof, or zeros for a coordinator that does
  /// not know the secret.
  const std::string& answer() const { return answer_; }

  /// REQUIRES: the challenge was verified.
  SessionKeys keys() const;

 private:
  const Secret& secret_;
  std::string transcript_;  ///< all bytes of both sides
  std::string hello_;
  std::string answer_;
};

class CoordinatorHandshake {
 public:
  CoordinatorHandshake(const Secret& secret, std::string_view prologue, std::string_view nonce);

  /// Returns the challenge for the agent's hello of kHelloBytes. Called once.
  std::string challenge(std::string_view hello);

  /// Returns true if the agent's answer of kProofBytes proves that it knows the secret.
  bool is_proof(std::string_view answer) const;

  /// REQUIRES: the answer was verified.
  SessionKeys keys() const;

 private:
  const Secret& secret_;
  std::string transcript_;
  std::string nonce_;
};

}  // namespace ddprun::security
