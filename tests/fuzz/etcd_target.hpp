// What the fuzzer of etcd's answers runs, apart from the fuzzer, so that the corpus is a test of
// its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The first byte says what the others answer: a grant, a renewal, a transaction, a watch, a
/// request that failed; or that they are the value of one of a run's keys. Aborts if a promise is
/// broken: an exception, a problem without a text, a lease or a time out of bounds, a watch that
/// means something else when it comes in pieces, a run's state that reads differently when it is
/// written again.
void run_etcd(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
