// The shared secret of a run's nodes: bytes of a file that only its owner can read. Move-only,
// wiped on destruction, never printed. Thread-safe; file functions block.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::security {

/// Minimum bytes; fewer could be guessed.
inline constexpr std::size_t kSecretBytesMin = 32;

/// Minimum distinct bytes of a random secret: 64 random hexadecimal digits have fewer with
/// probability 10^-18.
inline constexpr int kDifferentBytesMin = 8;

/// Maximum bytes; a longer file is probably not a secret.
inline constexpr std::size_t kSecretBytesMax = 4096;

class Secret {
 public:
  /// Removes trailing newlines. Throws Error{Errc::usage} if there are too few or too many bytes;
  /// `origin` names their source: "--secret_file=run.key".
  static Secret from_bytes(std::string bytes, const std::string& origin);

  Secret(Secret&&) noexcept = default;
  Secret& operator=(Secret&& other) noexcept;
  ~Secret();

  std::string_view bytes() const { return bytes_; }

  /// Number of different bytes: a random secret has many.
  int different_bytes() const;

 private:
  explicit Secret(std::string bytes) : bytes_(std::move(bytes)) {}

  std::string bytes_;  ///< always on the heap: too long for the small-string buffer
};

/// Reads a secret. Throws Error{Errc::usage} unless `path` is a regular file of a secret's size
/// that this user or root owns and no other user can access. If this process does not run as root,
/// one of its groups may have read access to a file of root.
Secret read_secret(const std::string& path, const std::string& origin);

/// Writes a new random secret: a line of 64 hexadecimal digits, mode 0600. Throws
/// Error{Errc::system}, and leaves no new file, if the file exists, if other users can replace
/// files in its folder, or if it cannot be written.
void write_new_secret(const std::string& path);

}  // namespace ddprun::security
