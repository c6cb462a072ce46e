// Who has been refused and why, counted by both: so that operators hear of each cause when it first
// comes, of one that comes again and again ever less often, and of all at the end. A value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::membership {

/// Kept apart by node and cause; more are one number, so that no stranger can fill memory or a
/// disk.
inline constexpr std::size_t kRefusalsKept = 64;

/// Repeated at the end.
inline constexpr std::size_t kRefusalsRepeated = 8;

class Refusals {
 public:
  /// `name` of the node, empty if it has not said it. A line for operators: once for each power of
  /// two of its count; else nothing.
  std::optional<std::string> add(const std::string& name, const std::string& address,
                                 const std::string& reason);

  /// The node takes part after all.
  void forget(const std::string& name);

  /// What operators should have before them at the end, a line each, in the order in which it came.
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
