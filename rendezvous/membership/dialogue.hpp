// Protocol of a connection between an agent and the coordinator, for both sides: a greeting, mutual
// authentication and sealing in a run with a secret, then messages. Accepts bytes in pieces of any
// size; no I/O. See docs/agents_protocol.md.
//
// Before the peer is authenticated, its frames have fixed sizes, and each frame causes only a
// response of a fixed size.
#pragma once

#include "rendezvous/membership/codec.hpp"
#include "rendezvous/security/handshake.hpp"
#include "rendezvous/security/seal.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun::membership {

/// Messages of both sides after the handshake; sealed in a run with a secret.
template <typename Incoming, typename Outgoing>
class MessageStream {
 public:
  explicit MessageStream(std::size_t bytes_max) : reader_(bytes_max) {}

  void seal(security::Key outgoing, security::Key incoming) {
    sealer_.emplace(std::move(outgoing));
    unsealer_.emplace(std::move(incoming), kMessageBytesMax);
  }

  void allow(std::size_t bytes_max) { reader_.allow(bytes_max); }

  /// Encodes a message. The results must be sent in call order.
  std::string written(const Outgoing& message) {
    std::string bytes;
    append_message(bytes, message);
    return sealer_ ? sealer_->seal(bytes) : bytes;
  }

  void feed(std::string_view bytes) {
    if (unsealer_) return unsealer_->feed(bytes);
    reader_.feed(bytes);
  }

  std::optional<Incoming> next() {
    while (true) {
      if (auto message = reader_.next()) return message;
      if (!unsealer_ || reader_.is_malformed()) return std::nullopt;
      const auto bytes = unsealer_->next();
      if (!bytes) return std::nullopt;
      reader_.feed(*bytes);
    }
  }

  /// Returns the problem with the input; empty if it is valid so far.
  const std::string& problem() const {
    return reader_.is_malformed() || !unsealer_ ? reader_.problem() : unsealer_->problem();
  }

 private:
  std::optional<security::Sealer> sealer_;
  std::optional<security::Unsealer> unsealer_;
  MessageReader<Incoming> reader_;
};

class AgentDialogue {
 public:
  /// `secret` is null in an open run; otherwise it outlives this object. `nonce` is
  /// security::kDigestBytes random bytes, used for this connection only.
  AgentDialogue(const security::Secret* secret, const std::string& run_id, std::string_view nonce);

  /// Sends the message once the peer is authenticated; immediately in an open run.
  void send(const NodeMessage& message);

  void feed(std::string_view bytes);

  /// Removes and returns the bytes to send now, also after a problem.
  std::string take_outgoing() { return std::exchange(outgoing_, {}); }

  /// Returns the next message. An unauthenticated peer can only send Refused; a failed
  /// authentication yields a Refused with the reason.
  std::optional<CoordinatorMessage> next();

  /// Returns true in an open run, and once the peer has proven that it knows the secret.
  bool is_proven() const { return !handshake_; }

  /// Returns why no more messages follow, as a predicate of the peer; empty if more may follow.
  std::string problem() const;

  /// Returns the first bytes from the peer, at most kFirstBytesMax.
  const std::string& first_bytes() const { return first_bytes_; }

 private:
  std::optional<CoordinatorMessage> next_unproven();
  std::optional<CoordinatorMessage> take_challenge();

  std::optional<security::AgentHandshake> handshake_;  ///< set until the peer is authenticated
  std::string opening_;                                ///< received handshake bytes
  std::vector<NodeMessage> pending_;                   ///< messages to send after authentication
  std::string first_bytes_;                            ///< for recognising other programs
  MessageStream<CoordinatorMessage, NodeMessage> stream_{kMessageBytesMax};
  std::string outgoing_;
  std::string problem_;
};

class CoordinatorDialogue {
 public:
  /// See AgentDialogue.
  CoordinatorDialogue(const security::Secret* secret, std::string_view nonce);

  void send(const CoordinatorMessage& message) { outgoing_ += stream_.written(message); }

  void feed(std::string_view bytes);

  /// Removes and returns the bytes to send now, also after a problem.
  std::string take_outgoing() { return std::exchange(outgoing_, {}); }

  /// Returns the next message of the agent.
  std::optional<NodeMessage> next() { return stream_.next(); }

  /// Returns true once the agent has sent its greeting and, with a secret, authenticated.
  bool is_introduced() const { return stage_ == Stage::messages; }

  /// Allows messages of up to kMessageBytesMax, for a node that has joined.
  void allow_long_messages() { stream_.allow(kMessageBytesMax); }

  /// Returns why no more messages follow, as a predicate of the agent; empty if more may follow.
  const std::string& problem() const { return problem_.empty() ? stream_.problem() : problem_; }

  /// Returns why the agent was refused before its first message; empty if it was not.
  const std::string& refusal() const { return refusal_; }

 private:
  enum class Stage : std::uint8_t { greeting, mode, hello, proof, messages, ended };

  // These functions consume their part of opening_. They return false if it is incomplete.
  bool take_greeting();
  bool take_mode();
  bool take_hello();
  bool take_proof();
  bool take_part();

  std::string cut(std::size_t bytes);
  void refuse(const std::string& reason);
  void end(const std::string& problem);

  const security::Secret* secret_;
  std::string nonce_;
  Stage stage_ = Stage::greeting;
  std::string opening_;   ///< received bytes of the handshake, not yet parsed
  std::string prologue_;  ///< greeting and mode
  std::optional<security::CoordinatorHandshake> handshake_;
  MessageStream<NodeMessage, CoordinatorMessage> stream_{kFirstMessageBytesMax};
  std::string outgoing_;
  std::string refusal_;
  std::string problem_;
};

}  // namespace ddprun::membership
