#include "trainers/gpt2/token_file.hpp"

#include "trainers/gpt2/checksum.hpp"
#include <ddprun/error.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace trainer::gpt2 {

namespace {

static_assert(std::endian::native == std::endian::little, "token files are read as they are");

constexpr char kMagic[] = {'d', 'd', 'p', 'r', 'u', 'n', 't', 'k'};
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kVocabularyMax = 65536;  // range of uint16

struct Header {
  char magic[sizeof kMagic];
  std::uint32_t version;
  std::uint32_t vocabulary;
  std::uint64_t tokens;
};
static_assert(sizeof(Header) == 24);

[[noreturn]] void refuse_token_file(const std::string& what) {
  throw ddprun::Error(ddprun::Errc::usage, what);
}

/// Owns a descriptor.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

}  // namespace

TokenFile::TokenFile(const std::filesystem::path& path) : name_(path.string()) {
  const Descriptor file = {::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat status = {};
  if (file.number < 0 || ::fstat(file.number, &status) != 0) {
    refuse_token_file(name_ + " cannot be read: " + std::strerror(errno) +
                      "; create a token file with trainers/gpt2/prepare_text");
  }
  mapped_bytes_ = static_cast<std::size_t>(status.st_size);
  if (!S_ISREG(status.st_mode) || mapped_bytes_ < sizeof(Header)) {
    refuse_token_file(name_ +
                      " is not a valid token file; create one with trainers/gpt2/prepare_text");
  }
  void* mapping = ::mmap(nullptr, mapped_bytes_, PROT_READ, MAP_SHARED, file.number, 0);
  if (mapping == MAP_FAILED) ddprun::throw_system_error("mapping " + name_, errno);
  mapping_ = mapping;
  try {
    read_header();
    read_tokens();
  } catch (...) {
    ::munmap(mapping_, mapped_bytes_);
    throw;
  }
}

void TokenFile::read_header() {
  Header header = {};
  std::memcpy(&header, mapping_, sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) {
    refuse_token_file(name_ +
                      " is not a valid token file; create one with trainers/gpt2/prepare_text");
  }
  if (header.version != kVersion) {
    refuse_token_file(name_ + " is a token file of version " + std::to_string(header.version) +
                      ", this program reads version " + std::to_string(kVersion));
  }
  if (header.vocabulary == 0 || header.vocabulary > kVocabularyMax) {
    refuse_token_file(name_ + ": invalid vocabulary size " + std::to_string(header.vocabulary) +
                      "; must be 1 to " + std::to_string(kVocabularyMax));
  }
  const std::size_t held = (mapped_bytes_ - sizeof header) / sizeof(std::uint16_t);
  if (header.tokens != held || (mapped_bytes_ - sizeof header) % sizeof(std::uint16_t) != 0) {
    refuse_token_file(name_ + ": the header gives " + std::to_string(header.tokens) +
                      " tokens, but the file has " + std::to_string(held) +
                      (header.tokens > held ? "; the file is incomplete"
                                            : "; the file has extra bytes at its end"));
  }
  vocabulary_ = header.vocabulary;
  const auto* first = static_cast<const std::byte*>(mapping_) + sizeof header;
  tokens_ = {reinterpret_cast<const std::uint16_t*>(first), held};
}

/// In blocks, so that each byte is read once from the disk and from memory.
void TokenFile::read_tokens() {
  constexpr std::size_t kBlock = 1 << 16;  // tokens; at most half of a usual L2 cache
  checksum_ = checksum_of({static_cast<const std::byte*>(mapping_), sizeof(Header)});
  for (std::size_t first = 0; first < tokens_.size(); first += kBlock) {
    const auto block = tokens_.subspan(first, std::min(kBlock, tokens_.size() - first));
    std::uint16_t largest = 0;
    for (const std::uint16_t token : block) largest = std::max(largest, token);
    if (largest >= vocabulary_) {
      const auto bad = std::find_if(block.begin(), block.end(),
                                    [&](std::uint16_t token) { return token >= vocabulary_; });
      refuse_token_file(name_ + ": token " +
                        std::to_string(first + static_cast<std::size_t>(bad - block.begin())) +
                        " is " + std::to_string(*bad) + ", beyond the vocabulary of " +
                        std::to_string(vocabulary_));
    }
    checksum_ = checksum_of(std::as_bytes(block), checksum_);
  }
}

TokenFile::~TokenFile() {
  ::munmap(mapping_, mapped_bytes_);
}

std::size_t TokenFile::windows(std::size_t context) const {
  return tokens_.empty() ? 0 : (tokens_.size() - 1) / context;
}

void TokenFile::read_window(std::size_t index, std::span<std::int32_t> inputs,
                            std::span<std::int32_t> targets) const {
  const std::size_t begin = index * inputs.size();
  const auto at = [&](std::size_t position) {
    return static_cast<std::int32_t>(tokens_[position]);
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = at(begin + i);
  for (std::size_t i = 0; i + 1 < inputs.size(); ++i) targets[i] = inputs[i + 1];
  if (!inputs.empty()) targets[inputs.size() - 1] = at(begin + inputs.size());
}

}  // namespace trainer::gpt2
