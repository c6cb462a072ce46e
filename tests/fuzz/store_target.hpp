// Fuzz target: the store. Separate from the fuzzer, so that the corpus is also a test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// A few clients use one table. The input is a sequence of messages: one byte whose low two bits
/// select the client and whose other bits are the number of following bytes (63: to the end;
/// without any the client disconnects). Aborts if the store violates one of its invariants.
void run_store(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
