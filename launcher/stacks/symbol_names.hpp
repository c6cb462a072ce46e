// Names of functions from the symbol tables of ELF files. Pure; the caller supplies the reads. File
// contents are untrusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace ddprun {

/// Maximum length kept of a symbol: longer than those of PyTorch's templates. A damaged table may
/// claim symbols of many MiB for thousands of frames.
inline constexpr std::size_t kSymbolBytesMax = 4096;

/// An address in a file's code, and its function.
struct CodeLocation {
  std::uint64_t file_offset = 0;
  std::string function;        ///< mangled; empty: no symbol covers the address
  std::uint64_t distance = 0;  ///< bytes from the function's start
};

/// Returns `size` bytes of a file from `offset` on, or fewer at its end. A read rather than a
/// mapping, since a file that is rebuilt in the meantime becomes shorter, and access to the mapping
/// then raises SIGBUS. At most some MiB per call.
using ReadAt = std::function<std::string(std::uint64_t offset, std::uint64_t size)>;

/// Sets `function` and `distance` of the places that symbols of the file cover. Supports 64-bit
/// files in this machine's byte order; others have no names.
void name_functions(const ReadAt& read, std::span<CodeLocation> places);

}  // namespace ddprun
