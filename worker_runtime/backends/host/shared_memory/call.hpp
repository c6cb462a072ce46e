// A collective call in the shared memory backend, and its published form.
#pragma once

#include "worker_runtime/backends/backend.hpp"
#include "worker_runtime/backends/host/shared_memory/layout.hpp"
#include <ddprun/deadline.hpp>

#include <string>

namespace ddprun::shared_memory {

/// The data consists of `parts` parts of `part_elements` elements: one part per rank if the ranks
/// receive different data, otherwise a single one.
struct Call {
  Call(const Operation& what, Deadline until, int ranks, std::uint64_t number);

  const Operation& operation;
  Deadline deadline;
  std::uint64_t sequence;  ///< index among the group's collectives
  std::size_t parts;
  std::size_t part_elements;
  std::size_t element_bytes;

  std::size_t part_bytes() const { return part_elements * element_bytes; }
  bool is_tiny() const { return parts * part_bytes() <= kTinyBytes; }
  bool is_inline() const { return parts * part_bytes() <= kInlineBytes; }
  std::byte* input() const { return static_cast<std::byte*>(operation.input.data); }
  std::byte* output() const { return static_cast<std::byte*>(operation.output.data); }

  /// Returns true if the collective reads the input of `rank`.
  bool contributes(int rank) const;
  /// Returns true if other ranks than `rank` read its input.
  bool is_read_by_others(int rank) const;
};

/// Returns the published form of `call`; the caller sets `input` and `reachable`.
CallHeader header_of(const Call& call);

/// Returns the digest of a tiny call without its data.
std::uint64_t digest_of(const Call& call);

/// Returns true if two ranks made the same call.
bool is_same_call(const CallHeader& a, const CallHeader& b);

/// Returns text such as "all_reduce(100 x float32, sum)".
std::string describe(const CallHeader& header);

}  // namespace ddprun::shared_memory
