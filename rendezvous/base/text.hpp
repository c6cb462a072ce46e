// Text for people: wrapped to a width, lists, and the word that was probably meant. Pure functions;
// any thread may call.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// `text` in lines of at most `columns` characters (UTF-8 code points), broken at spaces. A word
/// longer than a line is left whole, so that paths can be copied. Newlines in `text` stay; a broken
/// line continues below its own leading spaces. At least one line.
std::vector<std::string> wrap_text(std::string_view text, int columns);

struct Character {
  std::size_t bytes = 0;  ///< 0: not well formed
  char32_t code = 0;
};

/// The character at the beginning of `text` (UTF-8 as in RFC 3629: shortest form, no surrogates, at
/// most U+10FFFF).
Character first_character(std::string_view text);

/// True for the control characters of ASCII and of Latin-1: U+0080 to U+009F begin escape
/// sequences as ESC does.
bool is_control(char32_t code);

/// `text` without bytes that would make a terminal do something: those of control characters
/// except tab and newline and those that are not UTF-8 become \xNN.
std::string printable(std::string_view text);

/// The words with `separator` between them.
std::string join(const std::vector<std::string>& words, std::string_view separator);

/// `text` with the letters A to Z in lower case.
std::string to_lower(std::string_view text);

/// The parts of `text` between separators; one empty part for an empty text.
std::vector<std::string> split(std::string_view text, char separator);

/// The position of `word` in `text`, or of an end of `text` that may be the beginning of `word`;
/// else the size of `text`. For text that comes in pieces.
std::size_t find_begun(std::string_view text, std::string_view word);

/// The candidate that differs least from `word` if the difference looks like a slip of the
/// fingers; otherwise empty.
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace ddprun
