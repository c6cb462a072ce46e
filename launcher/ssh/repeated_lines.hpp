// Detects lines that are the same on several nodes, which the console shows once. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace ddprun::ssh {

/// Limit of the memory for texts and counters. At the limit all counters are cleared, and a line
/// may be shown twice. 128 nodes with thousands of common lines stay below it.
inline constexpr std::size_t kRepeatedBytesMax = 64U << 20;

/// Assumed size of a text's counter and of the counter of a node that has logged the text.
inline constexpr std::size_t kRepeatedEntryBytes = 64;

class RepeatedLines {
 public:
  /// Counts a line of `node`. Returns true unless another node has logged it at least as often as
  /// this one: a line that every node logs N times is shown N times.
  bool is_new(std::uint32_t node, const std::string& text);

 private:
  struct Count {
    int most = 0;  ///< maximum over all nodes
    std::map<std::uint32_t, int> by_node{};
  };
  std::map<std::string, Count> counts_;
  std::size_t bytes_ = 0;
};

}  // namespace ddprun::ssh
