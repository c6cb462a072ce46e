#include "rendezvous/security/handshake.hpp"

namespace ddprun::security {

namespace {

// Purposes of the keys; part of the protocol.
constexpr std::string_view kRunMark = "ddprun mark of the run";
constexpr std::string_view kCoordinatorProof = "ddprun proof of the coordinator";
constexpr std::string_view kAgentProof = "ddprun proof of the agent";
constexpr std::string_view kAgentSeal = "ddprun seal of the agent";
constexpr std::string_view kCoordinatorSeal = "ddprun seal of the coordinator";

/// `transcript`: the bytes exchanged so far, including both nonces.
std::string proof_of(std::string_view role, const Secret& secret, std::string_view transcript) {
  return authenticate(derive_key(secret.bytes(), transcript, role), transcript);
}

SessionKeys keys_of(const Secret& secret, std::string_view transcript) {
  return {.from_agent = derive_key(secret.bytes(), transcript, kAgentSeal),
          .from_coordinator = derive_key(secret.bytes(), transcript, kCoordinatorSeal)};
}

}  // namespace

AgentHandshake::AgentHandshake(const Secret& secret, std::string_view prologue,
                               std::string_view run_id, std::string_view nonce)
    : secret_(secret), hello_(nonce) {
  hello_ += authenticate(derive_key(secret.bytes(), nonce, kRunMark), run_id);
  transcript_.append(prologue).append(hello_);
}

bool AgentHandshake::is_proof(std::string_view challenge) {
  transcript_ += challenge.substr(0, kDigestBytes);
  const auto expected = proof_of(kCoordinatorProof, secret_, transcript_);
  if (!are_equal(expected, challenge.substr(kDigestBytes))) {
    answer_.assign(kProofBytes, '\0');
    return false;
  }
  answer_ = proof_of(kAgentProof, secret_, transcript_);
  return true;
}

SessionKeys AgentHandshake::keys() const {
  return keys_of(secret_, transcript_);
}

CoordinatorHandshake::CoordinatorHandshake(const Secret& secret, std::string_view prologue,
                                           std::string_view nonce)
    : secret_(secret), transcript_(prologue), nonce_(nonce) {}

std::string CoordinatorHandshake::challenge(std::string_view hello) {
  transcript_.append(hello).append(nonce_);
  return nonce_ + proof_of(kCoordinatorProof, secret_, transcript_);
}

bool CoordinatorHandshake::is_proof(std::string_view proof) const {
  return are_equal(proof_of(kAgentProof, secret_, transcript_), proof);
}

SessionKeys CoordinatorHandshake::keys() const {
  return keys_of(secret_, transcript_);
}

}  // namespace ddprun::security
