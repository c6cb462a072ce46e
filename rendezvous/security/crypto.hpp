// The few pieces of cryptography that the handshake of agents is made of. Nothing of it decides
// anything; OpenSSL does the work and appears in crypto.cpp alone. Any thread may call.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::security {

/// Of SHA-256's output, of keys and of nonces.
inline constexpr std::size_t kDigestBytes = 32;

/// Overwrites memory in a way that no compiler leaves out.
void wipe(char* bytes, std::size_t count);

/// A key. Moved only, and wiped when it is no longer needed.
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

/// Takes the same time wherever they differ.
bool are_equal(std::string_view a, std::string_view b);

}  // namespace ddprun::security
