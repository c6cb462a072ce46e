// What the fuzzer of configuration files runs, apart from the fuzzer, so that the corpus is a test
// of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// Reads the input as a file and, if it is a right one, asks what it means on some of its nodes.
/// Aborts if a promise is broken: an exception, a canonical text that is longer than the input or
/// reads differently, a problem without a place.
void run_config(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
