// What the fuzzer of the store runs, apart from the fuzzer, so that the corpus is a test of its
// own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// Lets a few clients talk to one table. The input is a sequence of messages: one byte whose low
/// two bits say which client speaks and whose other bits how many bytes follow (63: to the end; the
/// client hangs up if none follow). Aborts if the store breaks a promise of its own.
void run_store(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
