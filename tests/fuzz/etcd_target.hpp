// Fuzz target: responses of etcd. Separate from the fuzzer, so that the corpus is also a test.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The first byte selects the meaning of the others: the response to a grant, a renewal, a
/// transaction, a watch or a failed request, or the value of one of a run's keys. Aborts on an
/// exception, a problem without a text, a lease or a time out of bounds, a watch whose meaning
/// depends on pieces, or a run's state that does not round-trip.
void run_etcd(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
