// Reads idx files such as MNIST's, with or without gzip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace trainer {

struct IdxArray {
  std::vector<std::size_t> dimensions;  ///< e.g. images, rows, columns
  std::vector<std::uint8_t> values;     ///< as many as the product of the dimensions
};

/// Maximum size of an array: twenty times Fashion-MNIST's 47 MB, and small enough that a damaged
/// header cannot exhaust memory.
inline constexpr std::size_t kIdxBytesMax = std::size_t{1} << 30;

/// Reads an array of unsigned bytes, which must have `rank` dimensions. Throws Error{Errc::usage}
/// with the file's name if it is missing, not an idx file, truncated, too long or too large.
IdxArray read_idx(const std::filesystem::path& path, std::size_t rank);

}  // namespace trainer
