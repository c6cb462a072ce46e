// Parses requests from a byte stream in pieces of any size. Never throws on malformed input and
// never allocates for an announced length. One parser per connection; no I/O.
#pragma once

#include "rendezvous/wire/operations.hpp"
#include "rendezvous/wire/request.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::wire {

class RequestParser {
 public:
  /// Consumes bytes of `input` up to the end of the next request. Returns nullopt if more bytes are
  /// needed (all were consumed) or the input is malformed.
  std::optional<Request> next(std::string_view& input);

  /// Returns true after malformed input: the connection must be closed.
  bool is_malformed() const { return !problem_.empty(); }

  /// Describes the problem for the operator; empty if none.
  const std::string& problem() const { return problem_; }

  Dialect dialect() const { return dialect_; }

  /// Memory of an incomplete request.
  std::size_t held_bytes() const { return held_bytes_; }

  /// Memory of the request that next() returned last.
  std::size_t finished_bytes() const { return finished_bytes_; }

  /// The fields of a request while it is being read.
  struct Parts {
    std::array<std::string, kFieldsMax> strings;
    std::size_t string_count = 0;
    std::vector<std::string> list;  ///< keys, or alternating keys and values
    std::int64_t number = 0;
  };

 private:
  // The following functions return false if more bytes are needed or the input is malformed.
  bool read_greeting(std::string_view& input);
  bool read_code(std::string_view& input);
  bool read_field(Field field, std::string_view& input);
  bool read_string(std::string& out, std::size_t bytes_max, const char* what,
                   std::string_view& input);
  bool read_list(std::size_t strings_per_item, std::string_view& input);
  bool read_number(std::size_t bytes, std::string_view& input);

  bool begin(std::uint8_t code);
  bool fail(std::string problem);
  Request finish();

  Dialect dialect_ = Dialect::undecided;
  bool has_zero_byte_ = false;  ///< the first byte was 0: VALIDATE or a legacy SET
  std::string problem_;

  std::optional<std::size_t> operation_;  ///< row of kOperations; nullopt between requests
  std::size_t field_ = 0;                 ///< index of the field being read
  Parts parts_;
  std::size_t announced_bytes_ = 0;  ///< total announced length of this request's strings so far
  std::size_t held_bytes_ = 0;
  std::size_t finished_bytes_ = 0;

  std::optional<std::size_t> length_;       ///< length of the string being read, if known
  std::optional<std::size_t> list_length_;  ///< number of strings in the list, once known
  std::string list_item_;

  std::array<char, 8> number_{};  ///< received bytes of the integer being read
  std::size_t number_bytes_ = 0;
};

}  // namespace ddprun::wire
