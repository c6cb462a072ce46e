// What the fuzzer of checkpoint files runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The input is a file, as it is and with the right length and checksum. Aborts if a checkpoint
/// that is read breaks a bound or is not the same after it has been written.
void run_checkpoint(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
