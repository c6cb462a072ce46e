// Fuzz target: connections to a rank's port. Separate from the fuzzer, so that the corpus is also a
// test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The input is all data of a connection. Aborts if the peer is accepted as a rank of the group.
void run_meeting(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
