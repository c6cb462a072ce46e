// What the fuzzer of what nodes tell each other of their workers' collectives runs, apart from the
// fuzzer, so that the corpus is a test of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The input is a record. Aborts if a promise is broken: an exception, a record that does not mean
/// the same when it is written again, or one of which nothing can be said.
void run_flights(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
