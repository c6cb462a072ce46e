// Fuzz target: flight records in a message of another node, as the report describes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The input is a sequence of messages from an agent. Aborts if a flight record exceeds its bounds,
/// or if a stalled collective has no description.
void run_flights(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
