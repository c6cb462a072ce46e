// What is said on one connection between an agent and the coordinator, as each side sees it: the
// greeting, in a run with a secret the proof that both know it and the seals of all that follows,
// then messages. Values over bytes, which may come in pieces of any size; no I/O. See
// docs/agents_protocol.md.
//
// Until the other side has proved itself it is a stranger: its frames have fixed sizes, and nothing
// it says leads to anything else than an answer of a fixed size.
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

/// The messages of both sides after the opening; sealed in a run with a secret.
template <typename Incoming, typename Outgoing>
class MessageStream {
 public:
  explicit MessageStream(std::size_t bytes_max) : reader_(bytes_max) {}

  void seal(security::Key outgoing, security::Key incoming) {
    sealer_.emplace(std::move(outgoing));
    unsealer_.emplace(std::move(incoming), kMessageBytesMax);
  }

  void allow(std::size_t bytes_max) { reader_.allow(bytes_max); }

  /// The bytes of a message, to be sent in the order of these calls.
  std::string written(const Outgoing& message) {
    std::string bytes;
    append_message(bytes, message);
    return sealer_ ? sealer_->seal(bytes) : bytes;
  }

  void take(std::string_view bytes) {
    if (unsealer_) return unsealer_->take(bytes);
    reader_.take(bytes);
  }

  std::optional<Incoming> next() {
    while (true) {
      if (auto message = reader_.next()) return message;
      if (!unsealer_ || reader_.is_malformed()) return std::nullopt;
      const auto bytes = unsealer_->next();
      if (!bytes) return std::nullopt;
      reader_.take(*bytes);
    }
  }

  /// Empty: none.
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
  /// `secret` is null in an open run, else it outlives this; `nonce` is of security::kDigestBytes
  /// random bytes, for this connection alone.
  AgentDialogue(const security::Secret* secret, const std::string& run_id, std::string_view nonce);

  /// Will be sent when the other side has proved itself; in an open run at once.
  void send(const NodeMessage& message);

  void take(std::string_view bytes);

  /// What is to be sent now, also after a problem; gone afterwards.
  std::string take_outgoing() { return std::exchange(outgoing_, {}); }

  /// The next message of the coordinator. A stranger can say nothing but Refused; one that does not
  /// know the secret is answered for by a Refused that says so.
  std::optional<CoordinatorMessage> next();

  /// True in an open run, and once the other side has proved that it knows the secret.
  bool is_proven() const { return !handshake_; }

  /// Why nothing more will come, as the end of a sentence about the other side; empty: more may.
  std::string problem() const;

  /// The first bytes of the peer, at most kFirstBytesMax.
  const std::string& first_bytes() const { return first_bytes_; }

 private:
  std::optional<CoordinatorMessage> next_of_stranger();
  std::optional<CoordinatorMessage> take_challenge();

  std::optional<security::AgentHandshake> handshake_;  ///< while the other side is a stranger
  std::string opening_;                                ///< what it has said as such
  std::vector<NodeMessage> unsaid_;                    ///< for when it is none
  std::string first_bytes_;                            ///< by which other programs are recognised
  MessageStream<CoordinatorMessage, NodeMessage> stream_{kMessageBytesMax};
  std::string outgoing_;
  std::string problem_;
};

class CoordinatorDialogue {
 public:
  /// As for an agent.
  CoordinatorDialogue(const security::Secret* secret, std::string_view nonce);

  void send(const CoordinatorMessage& message) { outgoing_ += stream_.written(message); }

  void take(std::string_view bytes);

  /// What is to be sent now, also after a problem; gone afterwards.
  std::string take_outgoing() { return std::exchange(outgoing_, {}); }

  /// The next message of the agent.
  std::optional<NodeMessage> next() { return stream_.next(); }

  /// The agent has greeted and, in a run with a secret, proved that it knows it.
  bool is_introduced() const { return stage_ == Stage::messages; }

  /// From now on messages may be as long as those of a node that has joined.
  void allow_long_messages() { stream_.allow(kMessageBytesMax); }

  /// Why nothing more will come, as the end of a sentence about the agent; empty: more may.
  const std::string& problem() const { return problem_.empty() ? stream_.problem() : problem_; }

  /// Why the agent was refused before it could say anything; it knows. Empty: it was not.
  const std::string& refusal() const { return refusal_; }

 private:
  enum class Stage : std::uint8_t { greeting, mode, hello, proof, messages, ended };

  // Each takes its part of opening_; false if that is not whole.
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
  std::string opening_;   ///< what has come before the messages and is not yet understood
  std::string prologue_;  ///< what came first: greeting and mode
  std::optional<security::CoordinatorHandshake> handshake_;
  MessageStream<NodeMessage, CoordinatorMessage> stream_{kFirstMessageBytesMax};
  std::string outgoing_;
  std::string refusal_;
  std::string problem_;
};

}  // namespace ddprun::membership
