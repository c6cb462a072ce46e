// Seals on messages between two sides that have proved themselves: nobody on the way can change,
// leave out, repeat or reorder them without being noticed. It does not hide them. Pure.
#pragma once

#include "rendezvous/security/crypto.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::security {

/// Half of an HMAC, as TLS and IPsec take it: what is to be guessed is gone with one wrong guess.
inline constexpr std::size_t kSealBytes = 16;

/// One direction of a connection, as its sender sees it.
class Sealer {
 public:
  explicit Sealer(Key key) : key_(std::move(key)) {}

  /// The message with its seal behind it.
  std::string seal(std::string_view message);

 private:
  Key key_;
  std::uint64_t number_ = 0;  ///< of the next message
};

/// The same, as its receiver sees it.
class Unsealer {
 public:
  /// A message begins with its length, a u32 that does not count itself. Longer ones than
  /// `bytes_max` are refused before memory is taken for them.
  Unsealer(Key key, std::size_t bytes_max) : key_(std::move(key)), bytes_max_(bytes_max) {}

  void take(std::string_view bytes);

  /// The next message, its length first and without its seal; nothing if a part of it is missing or
  /// something is wrong.
  std::optional<std::string> next();

  /// What is wrong, as the end of a sentence about the sender; empty: nothing.
  const std::string& problem() const { return problem_; }

 private:
  Key key_;
  std::size_t bytes_max_;
  std::uint64_t number_ = 0;
  std::string held_;
  std::size_t read_bytes_ = 0;  ///< of held_, from the front
  std::string problem_;
};

}  // namespace ddprun::security
