// A text as a file of tokens, mapped into memory, as trainers/gpt2/prepare_text writes it. All
// numbers are little-endian:
//   8 bytes  "ddpruntk"
//   uint32   version, 1
//   uint32   vocabulary: tokens are below it; at most 65536
//   uint64   number of tokens
//   uint16   each token
// The file must not change while it is open. Reading is thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace trainer::gpt2 {

class TokenFile {
 public:
  /// Throws Error{Errc::usage} with the file's name if it is missing, not a token file, of an
  /// unknown version, of another size than its header states, or contains a token that is not below
  /// the vocabulary. Reads the whole file once.
  explicit TokenFile(const std::filesystem::path& path);
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;
  ~TokenFile();

  const std::string& name() const { return name_; }
  std::size_t size() const { return tokens_.size(); }
  std::size_t vocabulary() const { return vocabulary_; }
  /// Returns the checksum of the content.
  std::uint64_t checksum() const { return checksum_; }

  /// Returns the number of disjoint sequences of `context` tokens, each with its next token.
  std::size_t windows(std::size_t context) const;

  /// Reads window `index`: inputs.size() tokens, and the next token of each.
  void read_window(std::size_t index, std::span<std::int32_t> inputs,
                   std::span<std::int32_t> targets) const;

 private:
  void read_header();
  void read_tokens();

  std::string name_;
  void* mapping_ = nullptr;
  std::size_t mapped_bytes_ = 0;
  std::size_t vocabulary_ = 0;
  std::span<const std::uint16_t> tokens_;
  std::uint64_t checksum_ = 0;
};

}  // namespace trainer::gpt2
