// What the fuzzer of all that goes over ssh runs, apart from the fuzzer, so that the corpus is a
// test of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The first byte selects the meaning of the others: the task of an agent, the output of a node, or
/// a configuration file and arguments (a zero before each) from which a start over ssh is planned.
/// Aborts if a promise is broken: an exception, a task that is encoded in another form, output that
/// means something else when it comes in pieces, a plan that shows its secret, leaves a node out or
/// has a task that cannot be decoded.
void run_ssh(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
