// Fuzz target: the control page. Separate from the fuzzer, so that the corpus is also a test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The input is a list of writes of one worker, ten bytes each: the log, the index of eight bytes
/// in it, and their value. After each write the agent reads the page, which has records of two
/// workers. Aborts on a value out of bounds, a text with control characters, or a record without a
/// description.
void run_page(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
