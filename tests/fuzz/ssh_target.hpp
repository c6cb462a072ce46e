// What the fuzzer of all that goes over ssh runs, apart from the fuzzer, so that the corpus is a
// test of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The first byte says what the others are: the task of an agent or of a relay, the reports of a
/// machine below, or a configuration file and arguments (a zero before each) from which a start by
/// ssh is planned. Aborts if a promise is broken: an exception, bytes that mean a task but are not
/// what is written for it, reports that mean something else when they come in pieces, a plan that
/// tells its secret, leaves a node out or does not arrive as it was sent.
void run_ssh(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
