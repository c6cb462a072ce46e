// Cryptographic primitives of the agents' handshake, implemented with OpenSSL (in crypto.cpp only).
// Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::security {

/// Bytes of a SHA-256 digest, a key and a nonce.
inline constexpr std::size_t kDigestBytes = 32;

/// Overwrites memory; never optimised away.
void wipe(char* bytes, std::size_t count);

/// A key. Move-only; wiped on destruction.
class Key {
 public:
  explicit Key(const std::array<char, kDigestBytes>& bytes) : bytes_(bytes) {}
  Key(Key&& other) noexcept : bytes_(other.bytes_) { other.clear(); }
  Key& operator=(Key&& other) noexcept {
    if (this != &other) bytes_ = other.bytes_;
    if (this != &other) other.clear();
    return *this;
  }
  ~Key() { clear(); }

  std::string_view bytes() const { return {bytes_.data(), bytes_.size()}; }

 private:
  void clear() { wipe(bytes_.data(), bytes_.size()); }

  std::array<char, kDigestBytes> bytes_;
};

/// HKDF with SHA-256 (RFC 5869): an independent key for each purpose that `info` names.
Key derive_key(std::string_view secret, std::string_view salt, std::string_view info);

/// HMAC with SHA-256 (RFC 2104): kDigestBytes bytes.
std::string authenticate(const Key& key, std::string_view message);

/// Compares in constant time.
bool are_equal(std::string_view a, std::string_view b);

}  // namespace ddprun::security
