// What the fuzzer of the control page runs, apart from the fuzzer, so that the corpus is a test of
// its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The input is a list of writes of one worker, ten bytes each: which log, which eight bytes of it,
/// and their value. After each, the agent looks at the page, in which there are records of two.
/// Aborts if a promise is broken: a value out of bounds, a text with control characters, or a
/// record without a description.
void run_page(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
