// What the fuzzer of texts about the stacks of workers runs: of tools, of /proc and of the symbol
// reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The input is such a text, or a request to the symbol reader. Aborts if a request does not mean
/// the same when it is written again, or if something is found that is not in the text.
void run_stacks(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
