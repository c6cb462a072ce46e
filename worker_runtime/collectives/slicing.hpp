// How a collective divides its elements: into one slice per rank, and into rounds that fit a
// staging slot. Pure arithmetic; every rank computes the same from the same numbers.
#pragma once

#include <algorithm>
#include <cstddef>

namespace ddprun::collectives {

/// Slices begin on cache lines, so that two ranks never write to the same one.
inline constexpr std::size_t kSliceAlignment = 64;

/// Elements [first, first + count).
struct Range {
  std::size_t first = 0;
  std::size_t count = 0;

  bool operator==(const Range&) const = default;
};

/// Returns the slice of `elements` that rank `rank` of `ranks` combines. The slices of all ranks
/// are disjoint and cover all elements; the last ones may be empty.
constexpr Range slice_of(std::size_t elements, std::size_t element_bytes, int ranks, int rank) {
  const std::size_t unit = kSliceAlignment / element_bytes;
  const auto count = static_cast<std::size_t>(ranks);
  const std::size_t per_rank = ((elements + count - 1) / count + unit - 1) / unit * unit;
  const std::size_t first = std::min(elements, per_rank * static_cast<std::size_t>(rank));
  return {first, std::min(per_rank, elements - first)};
}

/// Division of a message into rounds that fit slots of limited size: round k transfers elements
/// [k * elements_per_round, ...) of every part.
struct Rounds {
  std::size_t part_elements = 0;
  std::size_t elements_per_round = 1;  ///< elements of one part

  constexpr std::size_t count() const {
    return (part_elements + elements_per_round - 1) / elements_per_round;
  }
  constexpr Range range(std::size_t round) const {
    const std::size_t first = round * elements_per_round;
    return {first, std::min(elements_per_round, part_elements - first)};
  }
};

/// Parts begin on cache lines unless there are too many parts. `slot_bytes` must hold at least
/// one element of each.
constexpr Rounds plan_rounds(std::size_t part_elements, std::size_t parts,
                             std::size_t element_bytes, std::size_t slot_bytes) {
  const std::size_t part_bytes = slot_bytes / parts;
  const std::size_t aligned_bytes = part_bytes / kSliceAlignment * kSliceAlignment;
  return {part_elements, (aligned_bytes > 0 ? aligned_bytes : part_bytes) / element_bytes};
}

}  // namespace ddprun::collectives
