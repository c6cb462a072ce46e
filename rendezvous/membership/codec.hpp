// Encodes and decodes the messages of membership: length, type, fields; see
// docs/agents_protocol.md. Decoding never throws on malformed input and never allocates for an
// announced length. No I/O.
#pragma once

#include "rendezvous/membership/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun::membership {

/// First bytes of an agent's greeting, followed by the version and a newline. No store request
/// begins with them, so agents and store clients can share a port.
inline constexpr std::string_view kGreeting = "DDPRUN/";

/// Maximum bytes of a message without its length. Only rounds with the most nodes need as many.
inline constexpr std::size_t kMessageBytesMax = std::size_t{4} << 20;

/// Maximum bytes of the first message, before the peer has joined: three names and a few numbers.
inline constexpr std::size_t kFirstMessageBytesMax = std::size_t{4} << 10;

/// Returns the bytes that an agent sends before its first message.
std::string greeting();

struct Greeting {
  bool is_malformed = false;
  std::uint32_t version = 0;
  std::size_t bytes = 0;  ///< length of the greeting
};

/// Parses the first bytes of a connection. Returns nullopt if more bytes are needed.
std::optional<Greeting> read_greeting(std::string_view bytes);

/// Returns the encoded size of a worker's exit in bytes.
std::size_t encoded_bytes(const WorkerExited& exit);
std::size_t encoded_bytes(const control::RankFlights& flights);
std::size_t encoded_bytes(const StacksTaken& taken);

void append_message(std::string& out, const NodeMessage& message);
void append_message(std::string& out, const CoordinatorMessage& message);

/// Splits the byte stream of a connection into messages.
template <typename Message>
class MessageReader {
 public:
  explicit MessageReader(std::size_t bytes_max = kMessageBytesMax) : bytes_max_(bytes_max) {}

  /// Sets the maximum length; longer messages are malformed.
  void allow(std::size_t bytes_max) { bytes_max_ = bytes_max; }

  void feed(std::string_view bytes) {
    held_.erase(0, std::exchange(read_bytes_, 0));
    held_.append(bytes);
  }

  /// Returns the next message, or nullopt if it is incomplete or the input is malformed.
  std::optional<Message> next();

  bool is_malformed() const { return !problem_.empty(); }
  const std::string& problem() const { return problem_; }

 private:
  std::string held_;
  std::size_t read_bytes_ = 0;  ///< consumed bytes at the front of held_
  std::size_t bytes_max_;
  std::string problem_;
};

extern template class MessageReader<NodeMessage>;
extern template class MessageReader<CoordinatorMessage>;

}  // namespace ddprun::membership
