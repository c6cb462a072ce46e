// Fuzz target: all input over ssh. Separate from the fuzzer, so that the corpus is also a test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The first byte selects the meaning of the others: the task of an agent, the output of a node, or
/// a configuration file and arguments (a zero before each) for the plan of a start over ssh. Aborts
/// on an exception, a task that does not round-trip, output whose meaning depends on pieces, or a
/// plan that shows its secret, omits a node or has a task that cannot be decoded.
void run_ssh(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
