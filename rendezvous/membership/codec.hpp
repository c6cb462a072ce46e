// The messages of membership as bytes and back: a length, a type, the fields in their order; see
// docs/agents_protocol.md. Never throws on what a peer sends and never takes memory for a length
// that the peer has only announced. No I/O.
#pragma once

#include "rendezvous/membership/messages.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::membership {

/// What an agent says first, before any message: no client of the store begins like this, so both
/// can share a port.
inline constexpr std::string_view kGreeting = "DDPRUN/1";

/// Of one message without its length. The largest is a round of very many nodes.
inline constexpr std::size_t kMessageBytesMax = std::size_t{4} << 20;

void append_message(std::string& out, const NodeMessage& message);
void append_message(std::string& out, const CoordinatorMessage& message);

/// Takes the bytes of a connection as they come, and gives messages.
template <typename Message>
class MessageReader {
 public:
  void take(std::string_view bytes) { held_.append(bytes); }

  /// The next message; nothing if a part of it is missing or the bytes are malformed.
  std::optional<Message> next();

  bool is_malformed() const { return !problem_.empty(); }
  const std::string& problem() const { return problem_; }

 private:
  std::string held_;
  std::string problem_;
};

extern template class MessageReader<NodeMessage>;
extern template class MessageReader<CoordinatorMessage>;

}  // namespace ddprun::membership
