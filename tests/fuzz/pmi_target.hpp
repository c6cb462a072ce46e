// What the fuzzer of the process manager for MPICH's ranks runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The input is lines of a client. Aborts if an answer is not one line, or if a key or a value that
/// is too long is kept.
void run_pmi(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
