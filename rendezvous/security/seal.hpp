// Seals on messages between authenticated peers: changed, missing, repeated and reordered messages
// are detected. No encryption. Pure.
#pragma once

#include "rendezvous/security/crypto.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::security {

/// Bytes of a seal: half of an HMAC, as in TLS and IPsec; an attacker has a single attempt.
inline constexpr std::size_t kSealBytes = 16;

/// Sending side of one direction of a connection.
class Sealer {
 public:
  explicit Sealer(Key key) : key_(std::move(key)) {}

  /// Returns the message followed by its seal.
  std::string seal(std::string_view message);

 private:
  Key key_;
  std::uint64_t number_ = 0;  ///< number of the next message
};

/// Receiving side of one direction of a connection.
class Unsealer {
 public:
  /// Messages start with a u32 length that excludes itself. Messages longer than `bytes_max` are
  /// rejected before memory is allocated.
  Unsealer(Key key, std::size_t bytes_max) : key_(std::move(key)), bytes_max_(bytes_max) {}

  void feed(std::string_view bytes);

  /// Returns the next message, including its length but not its seal; nullopt if it is incomplete
  /// or invalid.
  std::optional<std::string> next();

  /// Returns the problem as a predicate of the sender; empty if none.
  const std::string& problem() const { return problem_; }

 private:
  Key key_;
  std::size_t bytes_max_;
  std::uint64_t number_ = 0;
  std::string held_;
  std::size_t read_bytes_ = 0;  ///< consumed bytes at the front of held_
  std::string problem_;
};

}  // namespace ddprun::security
