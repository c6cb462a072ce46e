// The incomplete lines at the bottom of a terminal (progress bars and prompts): one row for each
// worker's stream. Complete lines scroll above. Pure: returns the text for the terminal.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};

class OpenLines {
 public:
  /// Sets the open line of `owner`, a pointer used only as an identity; empty text removes it.
  /// Returns false if nothing changed.
  bool set(const void* owner, std::string text);

  bool is_empty() const { return lines_.empty(); }

  /// Returns text that erases the rows and moves the cursor to the start of the first row.
  std::string erase();

  /// If only the open line of `owner` is drawn and `text` begins with the drawn line, removes it
  /// and returns the rest of `text`, to be written at the cursor. After a prompt, the cursor may
  /// follow the user's input in a row that must not be erased.
  std::optional<std::string> complete(const void* owner, std::string_view text);

  /// Returns text that draws the rows over the previous ones. Uses at most half of the terminal's
  /// rows; if rows are hidden, the last row shows their number.
  std::string draw(TerminalSize size);

  /// Returns text that moves the cursor below the rows, for output of another program. The next
  /// draw() does not erase the rows.
  std::string leave();

 private:
  std::string to_first_row();

  std::vector<std::pair<const void*, std::string>> lines_;  ///< in order of appearance
  int drawn_rows_ = 0;
  std::string drawn_line_;  ///< drawn text of the only row, if complete
};

/// Returns `line` (UTF-8) cut to at most `columns` columns of a terminal, without control
/// characters that move the cursor; colours are kept and reset at the end. Possibly wide characters
/// count as two columns, combining ones as one: a row may be too short, but never too long.
std::string fit_to_row(std::string_view line, int columns);

}  // namespace ddprun
