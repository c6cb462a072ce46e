// Text for users: wrapping, lists, and suggestions for mistyped words. Pure;
// thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Returns `text` in lines of at most `columns` characters (UTF-8 code points), broken at spaces.
/// Words longer than a line are not split, so that paths can be copied. Keeps newlines;
/// continuation lines have the indentation of their line. Returns at least one line.
std::vector<std::string> wrap_text(std::string_view text, int columns);

struct Character {
  std::size_t bytes = 0;  ///< length; 0: malformed
  char32_t code = 0;
};

/// Returns the first character of `text` (UTF-8 as in RFC 3629: shortest form, no surrogates, at
/// most U+10FFFF).
Character first_character(std::string_view text);

/// Returns true for control characters of ASCII and Latin-1. U+0080 to U+009F begin escape
/// sequences, like ESC does.
bool is_control(char32_t code);

/// Returns `text` without bytes that control a terminal: control characters except tab and newline,
/// and bytes that are not UTF-8, become \xNN.
std::string printable(std::string_view text);

/// Returns the words, separated by `separator`.
std::string join(const std::vector<std::string>& words, std::string_view separator);

/// Returns `text` with the letters A to Z in lower case.
std::string to_lower(std::string_view text);

/// Returns the parts of `text` between separators; for an empty text, one empty part.
std::vector<std::string> split(std::string_view text, char separator);

/// Returns the position of `word` in `text`, or of an end of `text` that may begin `word`;
/// otherwise the size of `text`. Used for text that arrives in pieces.
std::size_t find_begun(std::string_view text, std::string_view word);

/// Returns the candidate most similar to `word` if the difference looks like a typing error;
/// otherwise empty.
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace ddprun
