// What the nodes of a run say alike, of which a person wants to see one. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace ddprun::ssh {

/// Memory for the texts and for the nodes of each: more than 16,384 nodes with 50 common lines
/// take. When it is full all is forgotten, and a line may be shown twice.
inline constexpr std::size_t kCommonBytesMax = 64U << 20;

/// What is counted for each text, and for each node that says it, beside the text itself.
inline constexpr std::size_t kCommonEntryBytes = 64;

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
  std::size_t bytes_ = 0;
};

}  // namespace ddprun::ssh
