// What the fuzzer of checkpoint files runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The input is a file. Aborts if a checkpoint that is read is not the same after it has been
/// written.
void run_checkpoint(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
