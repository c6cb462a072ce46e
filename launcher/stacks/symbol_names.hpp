// Names of functions from the symbol tables of ELF files. Pure but for the reading, which is the
// caller's; whatever is read, it is never trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace ddprun {

/// What is kept of a symbol: longer than those of PyTorch's templates. A table of symbols may claim
/// one of many MiB for each of thousands of frames.
inline constexpr std::size_t kSymbolBytesMax = 4096;

/// A place in a file's code, and what is found out of it.
struct CodePlace {
  std::uint64_t file_offset = 0;
  std::string function;        ///< as the linker knows it; empty: no symbol covers the place
  std::uint64_t distance = 0;  ///< from the function's first byte
};

/// Gives `size` bytes of a file from `offset` on, or fewer if there are no more. Reading rather
/// than mapping: a file that is built anew meanwhile becomes shorter, which kills who has it
/// mapped. At most some MiB are asked for at once.
using ReadAt = std::function<std::string(std::uint64_t offset, std::uint64_t size)>;

/// Fills in `function` and `distance` of the places that a symbol of the file covers. Knows files
/// of 64 bits in this machine's byte order; others have no names.
void name_functions(const ReadAt& read, std::span<CodePlace> places);

}  // namespace ddprun
