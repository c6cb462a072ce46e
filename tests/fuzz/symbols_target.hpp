// Fuzz target: symbol tables of ELF files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddprun::fuzz {

/// The input is a file. Aborts if a name exceeds its limit, or if more memory is used at once than
/// permitted.
void run_symbols(std::span<const std::uint8_t> input);

}  // namespace ddprun::fuzz
