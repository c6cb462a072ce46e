// Fuzz target: configuration files. Separate from the fuzzer, so that the corpus is also a test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// Parses the input as a file and, if it is valid, resolves it for some of its nodes. Aborts on an
/// exception, a canonical text that is longer than the input or has another meaning, or a problem
/// without a position.
void run_config(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
