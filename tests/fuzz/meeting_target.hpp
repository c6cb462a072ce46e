// What the fuzzer of callers at a rank's port runs, apart from the fuzzer, so that the corpus is a
// test of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The input is all that a caller sends. Aborts if it is taken for a rank of the group.
void run_meeting(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
