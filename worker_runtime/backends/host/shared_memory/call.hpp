// One collective call as the shared memory backend sees it, and as it tells the other ranks.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/backends/host/shared_memory/layout.hpp"
#include <ddprun/deadline.hpp>

#include <string>

namespace ddprun::shared_memory {

/// The message is `parts` parts of `part_elements` elements: a part for each rank where ranks get
/// different data, else one.
struct Call {
  Call(const Operation& what, Deadline until, int ranks, std::uint64_t number);

  const Operation& operation;
  Deadline deadline;
  std::uint64_t sequence;  ///< among the group's collectives
  std::size_t parts;
  std::size_t part_elements;
  std::size_t element_bytes;

  std::size_t part_bytes() const { return part_elements * element_bytes; }
  bool is_tiny() const { return parts * part_bytes() <= kTinyBytes; }
  bool is_inline() const { return parts * part_bytes() <= kInlineBytes; }
  std::byte* input() const { return static_cast<std::byte*>(operation.input.data); }
  std::byte* output() const { return static_cast<std::byte*>(operation.output.data); }

  /// Whether this rank's input is needed by any other.
  bool contributes(int rank) const;
};

/// How `call` looks to the others; `input` and `reachable` are left to the caller.
CallHeader header_of(const Call& call);

/// Of all of a tiny call but its data: two that differ in anything differ in this.
std::uint64_t digest_of(const Call& call);

/// Whether two ranks called the same thing.
bool is_same_call(const CallHeader& a, const CallHeader& b);

/// "all_reduce(100 x float32, sum)".
std::string describe(const CallHeader& header);

}  // namespace ddprun::shared_memory
