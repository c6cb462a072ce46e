// Finds the greeting in the standard output of the ddprun that ssh starts: the output of a login
// shell before it, such as the message of the day, is not the agent's. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::ssh {

/// Limit of the output before the greeting. A program that prints more is not ddprun.
inline constexpr std::size_t kNoiseBytesMax = 64U << 10;

class GreetingReader {
 public:
  struct Parts {
    std::string noise;   ///< before the greeting
    std::string output;  ///< after the greeting

    bool operator==(const Parts&) const = default;
  };

  /// Splits the next bytes of the stream. Bytes that may begin the greeting are held back.
  Parts read(std::string_view bytes);

  bool has_greeting() const { return has_greeting_; }

  /// Returns true if there was more than kNoiseBytesMax of noise. All further bytes are dropped.
  bool has_failed() const { return has_failed_; }

 private:
  std::string held_;
  std::size_t noise_bytes_ = 0;
  bool has_greeting_ = false;
  bool has_failed_ = false;
};

}  // namespace ddprun::ssh
