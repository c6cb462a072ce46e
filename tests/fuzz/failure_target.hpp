// Fuzz target: a failed worker's error file, and the record of its exit from another node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The input is the text of an error file and a record. Aborts if a bound is exceeded, or if a
/// record does not round-trip.
void run_failure(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
