// Reads the idx files of MNIST and its relatives, gzip-compressed or not.
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

/// Largest array that is read: twenty times Fashion-MNIST's 47 MB, and small enough that a damaged
/// count cannot exhaust the memory.
inline constexpr std::size_t kIdxBytesMax = std::size_t{1} << 30;

/// Reads an array of unsigned bytes that must have `rank` dimensions. Throws Error{Errc::usage}
/// naming the file and what is wrong with it: missing, no idx file, truncated, too long, too large.
IdxArray read_idx(const std::filesystem::path& path, std::size_t rank);

}  // namespace trainer
