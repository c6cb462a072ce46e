// What the fuzzer of the agents' protocol runs, apart from the fuzzer, so that the corpus is a test
// of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The first byte selects the receiver of the others: a coordinator, with three agents that send in
/// turn, or an agent. Aborts if a promise is broken: pieces mean something else than the whole, a
/// message reads differently when it is written again, what the coordinator answers is no message,
/// an agent starts workers in a round without a place for it.
void run_membership(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
