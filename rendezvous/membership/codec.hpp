// The messages of membership as bytes and back: a length, a type, the fields in their order; see
// docs/agents_protocol.md. Never throws on what a peer sends and never takes memory for a length
// that the peer has only announced. No I/O.
#pragma once

#include "rendezvous/membership/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun::membership {

/// How an agent's greeting begins: as no client of the store does, so both can share a port. The
/// version follows, and a newline.
inline constexpr std::string_view kGreeting = "DDPRUN/";

/// Of one message without its length. The largest is a round of very many nodes.
inline constexpr std::size_t kMessageBytesMax = std::size_t{4} << 20;

/// Of the first one, from somebody who is not known yet: three names and some numbers.
inline constexpr std::size_t kFirstMessageBytesMax = std::size_t{4} << 10;

/// What an agent says before any message.
std::string greeting();

struct Greeting {
  bool is_malformed = false;
  std::uint32_t version = 0;
  std::size_t bytes = 0;  ///< its length
};

/// From the bytes that a connection begins with; nothing if there must be more of them.
std::optional<Greeting> read_greeting(std::string_view bytes);

/// The bytes that it takes in a message.
std::size_t encoded_bytes(const WorkerExited& exit);

void append_message(std::string& out, const NodeMessage& message);
void append_message(std::string& out, const CoordinatorMessage& message);

/// Takes the bytes of a connection as they come, and gives messages.
template <typename Message>
class MessageReader {
 public:
  explicit MessageReader(std::size_t bytes_max = kMessageBytesMax) : bytes_max_(bytes_max) {}

  /// Longer messages are malformed from now on.
  void allow(std::size_t bytes_max) { bytes_max_ = bytes_max; }

  void take(std::string_view bytes) {
    held_.erase(0, std::exchange(read_bytes_, 0));
    held_.append(bytes);
  }

  /// The next message; nothing if a part of it is missing or the bytes are malformed.
  std::optional<Message> next();

  bool is_malformed() const { return !problem_.empty(); }
  const std::string& problem() const { return problem_; }

 private:
  std::string held_;
  std::size_t read_bytes_ = 0;  ///< of held_, from the front
  std::size_t bytes_max_;
  std::string problem_;
};

extern template class MessageReader<NodeMessage>;
extern template class MessageReader<CoordinatorMessage>;

}  // namespace ddprun::membership
