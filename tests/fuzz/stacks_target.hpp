// Fuzz target: texts about stacks of workers, from tools, /proc and the symbol reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The input is such a text, or a request to the symbol reader. Aborts if a request does not
/// round-trip, or if a result is not part of the text.
void run_stacks(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
