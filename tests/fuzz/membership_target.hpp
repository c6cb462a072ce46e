// Fuzz target: the agents' protocol. Separate from the fuzzer, so that the corpus is also a test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The first byte selects the receiver of the others: a coordinator, with three agents that send in
/// turn, or an agent. Aborts if pieces differ from the whole, a message does not round-trip, the
/// coordinator sends an invalid message, or an agent starts workers in a round without a rank for
/// it.
void run_membership(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
