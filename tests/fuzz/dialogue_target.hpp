// Fuzz target: handshake and seals. Separate from the fuzzer, so that the corpus is also a test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The first byte selects the receiver of the others: a coordinator, an agent, or both connected to
/// each other, with a byte modified in transit by each three bytes (two for the position, one for
/// the change). Aborts if pieces differ from the whole, if an unauthenticated peer is accepted,
/// gets more than a challenge or makes an agent send more than its hello, or if a message is
/// received that was not sent.
void run_dialogue(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
