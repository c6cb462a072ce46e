// Text for people: wrapped to a width, lists, and the word that was probably meant. Pure functions;
// any thread may call.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// `text` in lines of at most `columns` characters (UTF-8 code points), broken at spaces. A word
/// longer than a line is left whole, so that paths can be copied. Newlines in `text` stay; a broken
/// line continues below its own leading spaces. At least one line.
std::vector<std::string> wrap_text(std::string_view text, int columns);

/// `text` without bytes that would make a terminal do something: control characters except tab
/// and newline become \xNN.
std::string printable(std::string_view text);

/// The words with `separator` between them.
std::string join(const std::vector<std::string>& words, std::string_view separator);

/// `text` with the letters A to Z in lower case.
std::string to_lower(std::string_view text);

/// The parts of `text` between separators; one empty part for an empty text.
std::vector<std::string> split(std::string_view text, char separator);

/// The candidate that differs least from `word` if the difference looks like a slip of the
/// fingers; otherwise empty.
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace ddprun
