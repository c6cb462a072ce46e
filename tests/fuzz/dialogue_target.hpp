// What the fuzzer of the handshake and the seals runs, apart from the fuzzer, so that the corpus is
// a test of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The first byte says who hears the others from a stranger: a coordinator, an agent, or both, who
/// talk to each other while each three bytes (two for a place, one for a change) alter one byte on
/// the way. Aborts if a promise is broken: pieces mean something else than the whole, a stranger is
/// believed, gets more than a challenge or makes an agent say more than its hello, or something is
/// heard that was not said.
void run_dialogue(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
