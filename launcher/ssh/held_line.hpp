// Holds back the last line of ssh's standard error until the node's ddprun has started. If it does
// not start, this line is the reason, and is shown with the node's result instead. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::ssh {

/// Limit of a line that is held back; ssh prints none that is longer.
inline constexpr std::size_t kHeldLineBytesMax = 4096;

class HeldLine {
 public:
  /// Adds the next bytes of the stream and returns the bytes to show now.
  std::string add(std::string_view bytes);

  /// Returns the held bytes, and clears them.
  std::string release();

  /// Returns the held line without its end; empty if there were no lines.
  std::string text() const;

 private:
  std::string held_;
};

}  // namespace ddprun::ssh
