// Counts refused nodes by name and cause. Each cause is reported when it first occurs, then at
// powers of two, and in a summary. A value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::membership {

/// Maximum number of distinct entries; further ones share a counter, which bounds memory and log
/// size.
inline constexpr std::size_t kRefusalsKept = 64;

/// Entries in the summary.
inline constexpr std::size_t kRefusalsRepeated = 8;

class Refusals {
 public:
  /// Counts a refusal. `name` is empty if the node has not sent it. Returns a line for the operator
  /// when the count is a power of two.
  std::optional<std::string> add(const std::string& name, const std::string& address,
                                 const std::string& reason);

  /// Removes the entries of a node that has joined.
  void forget(const std::string& name);

  /// Returns lines for the end of the run, in order of first occurrence.
  std::vector<std::string> summary() const;

 private:
  struct Entry {
    std::string name;
    std::string address;
    std::string reason;
    std::uint64_t count = 0;
  };
  std::vector<Entry> entries_;
  std::uint64_t others_ = 0;
};

}  // namespace ddprun::membership
