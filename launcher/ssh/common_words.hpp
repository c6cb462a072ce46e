// What the nodes of a run say alike, of which a person wants to see one. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace ddprun::ssh {

/// Of so many texts it is known who has said them; after that all is forgotten, and something may
/// be shown twice.
inline constexpr std::size_t kCommonTextsMax = 4096;

class CommonWords {
 public:
  /// A node says this. True if no other has said it as often as this one now has: a line that
  /// comes again and again is shown as often as each node says it.
  bool is_news(std::uint32_t node, const std::string& text);

 private:
  struct Count {
    int most = 0;
    std::map<std::uint32_t, int> by_node{};
  };
  std::map<std::string, Count> counts_;
};

}  // namespace ddprun::ssh
