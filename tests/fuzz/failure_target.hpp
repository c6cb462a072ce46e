// What the fuzzer of how a worker failed runs: its error file, and the record of its end from
// another node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The input is the text of an error file and a record. Aborts if one is read without a bound, or
/// if a record does not mean the same when it is written again.
void run_failure(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
