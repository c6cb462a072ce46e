// What the fuzzer of the symbol tables in ELF files runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The input is a file. Aborts if a name is longer than what is kept of one, or if more is read at
/// once than fits into memory.
void run_symbols(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
