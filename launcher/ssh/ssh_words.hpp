// What ssh says on its standard error before anybody has answered. If nobody does, its last line is
// the reason, which is told with the node's fate; so that line is held back. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::ssh {

/// A last line that is longer is not held back: ssh says nothing like it.
inline constexpr std::size_t kHeldWordsMax = 4096;

class SshWords {
 public:
  /// Takes what has come and returns what is to be shown now.
  std::string take(std::string_view bytes);

  /// What was held back, to be shown after all. Nothing is held back then.
  std::string take_rest();

  /// The line that is held back, without its end; empty: nothing was said.
  std::string last() const;

 private:
  std::string held_;
};

}  // namespace ddprun::ssh
