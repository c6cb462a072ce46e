// Fuzz target: checkpoint files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The input is a file, unchanged and with the right length and checksum. Aborts if a loaded
/// checkpoint exceeds a bound or does not round-trip.
void run_checkpoint(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
