#include "launcher/config/json_string.hpp"

#include "rendezvous/base/text.hpp"

#include <cstdint>
#include <optional>

namespace ddprun {

namespace {

std::string to_utf8(std::uint32_t code) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xc0 | (code >> 6)), tail(0)};
  if (code < 0x10000) return {static_cast<char>(0xe0 | (code >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xf0 | (code >> 18)), tail(12), tail(6), tail(0)};
}

/// Returns the four hexadecimal digits after "\u" at the start of `rest`.
std::optional<std::uint32_t> unit_of(std::string_view rest) {
  if (rest.substr(0, 2) != "\\u" || rest.size() < 6) return std::nullopt;
  std::uint32_t code = 0;
  for (const char digit : rest.substr(2, 4)) {
    constexpr std::string_view kDigits = "0123456789abcdef0123456789ABCDEF";
    const auto at = kDigits.find(digit);
    if (at == std::string_view::npos) return std::nullopt;
    code = code * 16 + static_cast<std::uint32_t>(at % 16);
  }
  return code;
}

/// Returns the character of "\u0041", or of a surrogate pair beyond U+FFFF.
JsonCharacter unicode_escape(std::string_view rest) {
  const auto first = unit_of(rest);
  if (!first) return {.problem = "\\u is not followed by four hexadecimal digits"};
  if (*first == 0) return {.problem = "\\u0000 is not allowed: it would end the string"};
  if (*first < 0xd800 || *first > 0xdfff) return {to_utf8(*first), 6, {}};
  const auto second = *first < 0xdc00 ? unit_of(rest.substr(6)) : std::nullopt;
  if (!second || *second < 0xdc00 || *second > 0xdfff) {
    return {.problem = "unpaired surrogate in a \\u escape"};
  }
  return {to_utf8(0x10000 + ((*first - 0xd800) << 10) + (*second - 0xdc00)), 12, {}};
}

JsonCharacter escape(std::string_view rest) {
  constexpr std::string_view kNames = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (rest.size() < 2) return {.problem = "a backslash at the end of the file"};
  if (rest[1] == 'u') return unicode_escape(rest);
  const auto at = kNames.find(rest[1]);
  if (at != std::string_view::npos) return {std::string(1, kMeanings[at]), 2, {}};
  return {.problem =
              "unknown escape " + printable(rest.substr(0, 2)) + "; a backslash is written \\\\"};
}

}  // namespace

JsonCharacter next_character(std::string_view rest) {
  if (rest[0] == '\\') return escape(rest);
  if (static_cast<unsigned char>(rest[0]) < 0x20) {
    return {.problem = "the control character " +
                       (rest[0] == '\t' ? "tab (written \\t)" : printable(rest.substr(0, 1))) +
                       " is not allowed in a string"};
  }
  const auto bytes = first_character(rest).bytes;
  if (bytes == 0) return {.problem = "bytes that are not UTF-8"};
  return {std::string(rest.substr(0, bytes)), bytes, {}};
}

}  // namespace ddprun
