#include "trainers/trainer/idx_file.hpp"

#include <ddprun/error.hpp>

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

namespace trainer {

namespace {

using ddprun::Errc;
using ddprun::Error;

/// Reads gzip files; zlib also reads uncompressed files.
class GzipReader {
 public:
  explicit GzipReader(const std::filesystem::path& path) : path_(path) {
    errno = 0;
    file_.reset(::gzopen(path.c_str(), "rbe"));
    if (!file_) throw Error(Errc::usage, path.string() + ": " + std::strerror(errno));
  }

  /// Reads `count` bytes, or fewer at the end of the file.
  std::size_t read(std::uint8_t* to, std::size_t count) {
    const int got = ::gzread(file_.get(), to, static_cast<unsigned>(count));
    int code = Z_OK;
    const char* text = ::gzerror(file_.get(), &code);
    // For a truncated stream, zlib returns the available bytes and sets Z_BUF_ERROR.
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      fail(code == Z_ERRNO ? std::strerror(errno) : std::string("damaged: ") + text);
    }
    return static_cast<std::size_t>(got);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Errc::usage, path_.string() + ": " + what);
  }

 private:
  struct Close {
    void operator()(gzFile file) const { ::gzclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::remove_pointer_t<gzFile>, Close> file_;
};

std::uint32_t read_big_endian(GzipReader& reader) {
  std::array<std::uint8_t, 4> bytes = {};
  if (reader.read(bytes.data(), bytes.size()) != bytes.size()) {
    reader.fail("ends within its header");
  }
  return static_cast<std::uint32_t>(bytes[0]) << 24 | static_cast<std::uint32_t>(bytes[1]) << 16 |
         static_cast<std::uint32_t>(bytes[2]) << 8 | static_cast<std::uint32_t>(bytes[3]);
}

std::vector<std::size_t> read_header(GzipReader& reader, std::size_t rank) {
  constexpr std::uint32_t kUnsignedBytes = 0x0800;
  const std::uint32_t expected = kUnsignedBytes | static_cast<std::uint32_t>(rank);
  const std::uint32_t magic = read_big_endian(reader);
  if (magic != expected) {
    reader.fail("is not an idx file of bytes with " + std::to_string(rank) +
                " dimensions: its magic number is " + std::to_string(magic) + " instead of " +
                std::to_string(expected));
  }
  std::vector<std::size_t> dimensions;
  std::size_t product = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t dimension = read_big_endian(reader);
    if (dimension == 0) reader.fail("dimension " + std::to_string(i) + " is 0");
    // Neither factor exceeds 2^32, so the product cannot overflow before it is checked.
    product *= dimension;
    if (product > kIdxBytesMax) {
      reader.fail("claims more than " + std::to_string(kIdxBytesMax) + " bytes");
    }
    dimensions.push_back(dimension);
  }
  return dimensions;
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& path, std::size_t rank) {
  GzipReader reader(path);
  IdxArray array = {.dimensions = read_header(reader, rank), .values = {}};
  std::size_t expected = 1;
  for (const std::size_t dimension : array.dimensions) expected *= dimension;

  // Allocates for the bytes read, not for the size in the header, which may be wrong.
  constexpr std::size_t kChunkBytes = std::size_t{8} << 20;
  while (array.values.size() < expected) {
    const std::size_t before = array.values.size();
    const std::size_t wanted = std::min(kChunkBytes, expected - before);
    array.values.resize(before + wanted);
    if (reader.read(array.values.data() + before, wanted) != wanted) {
      reader.fail("is truncated: fewer than the " + std::to_string(expected) +
                  " bytes given by its header");
    }
  }
  std::uint8_t beyond = 0;
  if (reader.read(&beyond, 1) != 0) {
    reader.fail("has data after the " + std::to_string(expected) + " bytes given by its header");
  }
  return array;
}

}  // namespace trainer
