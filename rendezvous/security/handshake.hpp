// How an agent and the coordinator of a run prove to each other that they know the run's secret
// before anything else is said, and the keys that seal what follows; see docs/agents_protocol.md.
// Two values, one for each side, over frames of fixed sizes. Pure: nonces are arguments. What comes
// around them, and that the frames come in pieces, is membership/dialogue.hpp's concern.
//
//   agent: hello   -> coordinator: challenge, with its proof   -> agent: its proof
//
// A proof is an HMAC over all that both have said before, under a key for the role of who gives it:
// it is worth nothing in another connection (nonces), in the other direction (roles), in another
// run or another version of the protocol (both are in what has been said).
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

/// What each direction is sealed with; see seal.hpp.
struct SessionKeys {
  Key from_agent;
  Key from_coordinator;
};

class AgentHandshake {
 public:
  /// `prologue` is what has been said on the connection before; `secret` outlives this.
  AgentHandshake(const Secret& secret, std::string_view prologue, std::string_view run_id,
                 std::string_view nonce);

  /// To be sent first.
  const std::string& hello() const { return hello_; }

  /// Takes the challenge, kChallengeBytes long, once. False: the coordinator does not know the
  /// secret.
  bool is_proof(std::string_view challenge);

  /// To be sent after the challenge: this side's proof, or, for a coordinator that does not know
  /// the secret, zeros, which tell it so and nothing else.
  const std::string& answer() const { return answer_; }

  /// If the challenge was a proof.
  SessionKeys keys() const;

 private:
  const Secret& secret_;
  std::string said_;  ///< all that both have said
  std::string hello_;
  std::string answer_;
};

class CoordinatorHandshake {
 public:
  CoordinatorHandshake(const Secret& secret, std::string_view prologue, std::string_view nonce);

  /// What is to be sent for the agent's hello, kHelloBytes long. To be called once.
  std::string challenge(std::string_view hello);

  /// Whether the agent's answer, kProofBytes long, shows that it knows the secret.
  bool is_proof(std::string_view answer) const;

  /// If the answer was a proof.
  SessionKeys keys() const;

 private:
  const Secret& secret_;
  std::string said_;
  std::string nonce_;
};

}  // namespace ddprun::security
