#include "worker_runtime/data/checkpoint_file.hpp"

#include "rendezvous/base/quiet_write.hpp"
#include <ddprun/error.hpp>

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace ddprun {

namespace {

constexpr std::array<char, 8> kMagic = {'D', 'D', 'P', 'R', 'U', 'N', 'C', 'K'};
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 32;         // magic, version, sections, step, file bytes
constexpr std::size_t kSectionHeaderBytes = 12;  // name bytes, content bytes
constexpr std::size_t kTrailerBytes = 4;         // checksum of all before it

std::uint32_t extend_checksum(std::uint32_t checksum, std::span<const std::byte> bytes) {
  // zlib resets the checksum for a null pointer, which an empty span may have.
  if (bytes.empty()) return checksum;
  return static_cast<std::uint32_t>(
      ::crc32_z(checksum, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

template <typename Integer>
void put_integer(std::byte*& at, Integer value) {
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    *at++ = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i));
  }
}

template <typename Integer>
Integer take_integer(const std::byte*& at) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    value |= std::to_integer<std::uint64_t>(*at++) << (8 * i);
  }
  return static_cast<Integer>(value);
}

std::uint64_t file_bytes(const Checkpoint& checkpoint) {
  std::uint64_t bytes = kHeaderBytes + kTrailerBytes;
  for (const auto& [name, content] : checkpoint.sections) {
    bytes += kSectionHeaderBytes + name.size() + content.size();
  }
  return bytes;
}

class Writer {
 public:
  Writer(int fd, std::uint64_t bytes_total) : fd_(fd), bytes_total_(bytes_total) {}

  std::uint32_t checksum() const { return checksum_; }

  void write(std::span<const std::byte> bytes) {
    checksum_ = extend_checksum(checksum_, bytes);
    while (!bytes.empty()) {
      const ssize_t written = quiet_write(fd_, bytes.data(), bytes.size());
      if (written < 0) {
        if (errno == EINTR) continue;
        throw_system_error("byte " + std::to_string(bytes_written_) + " of " +
                               std::to_string(bytes_total_) + " could not be written",
                           errno);
      }
      bytes_written_ += static_cast<std::uint64_t>(written);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

 private:
  int fd_;
  std::uint64_t bytes_total_;
  std::uint64_t bytes_written_ = 0;
  std::uint32_t checksum_ = 0;
};

/// Damaged input, thrown and caught within this file.
struct Damaged {
  std::string reason;
};

class Reader {
 public:
  Reader(int fd, std::uint64_t bytes) : fd_(fd), bytes_left_(bytes) {}

  std::uint64_t bytes_left() const { return bytes_left_; }
  std::uint32_t checksum() const { return checksum_; }

  void read(std::span<std::byte> bytes) {
    if (bytes.size() > bytes_left_) throw Damaged{"it ends in the middle"};
    auto rest = bytes;
    while (!rest.empty()) {
      const ssize_t got = ::read(fd_, rest.data(), rest.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw Damaged{"reading: " + std::generic_category().message(errno)};
      if (got == 0) throw Damaged{"it became shorter while it was read"};
      rest = rest.subspan(static_cast<std::size_t>(got));
    }
    bytes_left_ -= bytes.size();
    checksum_ = extend_checksum(checksum_, bytes);
  }

 private:
  int fd_;
  std::uint64_t bytes_left_;
  std::uint32_t checksum_ = 0;
};

struct Header {
  std::uint32_t sections;
  std::int64_t step;
};

Header read_header(Reader& reader) {
  const std::uint64_t bytes_there = reader.bytes_left();
  if (bytes_there < kHeaderBytes + kTrailerBytes) {
    throw Damaged{"it has " + std::to_string(bytes_there) + " bytes, too few for a checkpoint"};
  }
  std::array<std::byte, kHeaderBytes> bytes;
  reader.read(bytes);
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    throw Damaged{"it does not begin as a checkpoint does"};
  }
  const std::byte* at = bytes.data() + kMagic.size();
  const auto version = take_integer<std::uint32_t>(at);
  if (version != kVersion) {
    throw Damaged{"it has format " + std::to_string(version) + ", this program reads format " +
                  std::to_string(kVersion)};
  }
  const auto sections = take_integer<std::uint32_t>(at);
  const auto step = take_integer<std::int64_t>(at);
  const auto bytes_expected = take_integer<std::uint64_t>(at);
  if (bytes_expected != bytes_there) {
    throw Damaged{"it has " + std::to_string(bytes_there) + " bytes and should have " +
                  std::to_string(bytes_expected)};
  }
  if (step < 0) throw Damaged{"it has step " + std::to_string(step) + ", which is negative"};
  if (sections > kCheckpointSectionsMax) {
    throw Damaged{"it claims " + std::to_string(sections) + " sections, at most " +
                  std::to_string(kCheckpointSectionsMax) + " are possible"};
  }
  return {sections, step};
}

void read_section(Reader& reader, Checkpoint& checkpoint) {
  std::array<std::byte, kSectionHeaderBytes> bytes;
  reader.read(bytes);
  const std::byte* at = bytes.data();
  const auto name_bytes = take_integer<std::uint32_t>(at);
  const auto content_bytes = take_integer<std::uint64_t>(at);
  if (name_bytes > kSectionNameBytesMax || name_bytes > reader.bytes_left() ||
      content_bytes > reader.bytes_left() - name_bytes) {
    throw Damaged{"a section claims more bytes than there are"};
  }
  std::string name(name_bytes, '\0');
  reader.read(std::as_writable_bytes(std::span(name)));
  const auto [section, is_new] = checkpoint.sections.try_emplace(std::move(name));
  if (!is_new) throw Damaged{"it has two sections of the same name"};
  section->second.resize(content_bytes);
  reader.read(section->second);
}

void check_trailer(Reader& reader) {
  if (reader.bytes_left() != kTrailerBytes) throw Damaged{"it has bytes that belong to no section"};
  const std::uint32_t computed = reader.checksum();
  std::array<std::byte, kTrailerBytes> bytes;
  reader.read(bytes);
  const std::byte* at = bytes.data();
  if (take_integer<std::uint32_t>(at) != computed) throw Damaged{"its checksum does not match"};
}

}  // namespace

void check_checkpoint(const Checkpoint& checkpoint) {
  if (checkpoint.step < 0) {
    throw Error(Errc::usage,
                "checkpoint: step " + std::to_string(checkpoint.step) + " is negative");
  }
  if (checkpoint.sections.size() > kCheckpointSectionsMax) {
    throw Error(Errc::usage, "checkpoint: " + std::to_string(checkpoint.sections.size()) +
                                 " sections, at most " + std::to_string(kCheckpointSectionsMax) +
                                 " are possible");
  }
  for (const auto& [name, content] : checkpoint.sections) {
    if (name.size() > kSectionNameBytesMax) {
      throw Error(Errc::usage, "checkpoint: a section name of " + std::to_string(name.size()) +
                                   " bytes, at most " + std::to_string(kSectionNameBytesMax) +
                                   " are possible: " + name.substr(0, 40) + "...");
    }
  }
}

void write_checkpoint(int fd, const Checkpoint& checkpoint) {
  const std::uint64_t bytes_total = file_bytes(checkpoint);
  Writer writer(fd, bytes_total);
  std::array<std::byte, kHeaderBytes> header;
  std::memcpy(header.data(), kMagic.data(), kMagic.size());
  std::byte* at = header.data() + kMagic.size();
  put_integer(at, kVersion);
  put_integer(at, static_cast<std::uint32_t>(checkpoint.sections.size()));
  put_integer(at, checkpoint.step);
  put_integer(at, bytes_total);
  writer.write(header);
  for (const auto& [name, content] : checkpoint.sections) {
    std::array<std::byte, kSectionHeaderBytes> section_header;
    at = section_header.data();
    put_integer(at, static_cast<std::uint32_t>(name.size()));
    put_integer(at, static_cast<std::uint64_t>(content.size()));
    writer.write(section_header);
    writer.write(std::as_bytes(std::span(name)));
    writer.write(content);
  }
  std::array<std::byte, kTrailerBytes> trailer;
  at = trailer.data();
  put_integer(at, writer.checksum());
  writer.write(trailer);
}

std::variant<Checkpoint, CheckpointDamage> read_checkpoint(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    return CheckpointDamage{"reading: " + std::generic_category().message(errno)};
  }
  if (!S_ISREG(status.st_mode)) return CheckpointDamage{"it is not a regular file"};
  try {
    Reader reader(fd, static_cast<std::uint64_t>(status.st_size));
    const auto header = read_header(reader);
    Checkpoint checkpoint{.step = header.step, .sections = {}};
    for (std::uint32_t i = 0; i < header.sections; ++i) read_section(reader, checkpoint);
    check_trailer(reader);
    return checkpoint;
  } catch (Damaged& damaged) {
    return CheckpointDamage{std::move(damaged.reason)};
  }
}

}  // namespace ddprun
