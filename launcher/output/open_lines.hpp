// The lines at the lower end of a terminal that are not complete yet: progress bars and prompts,
// one row for each worker's stream, while complete lines scroll by above them. Pure: what to send
// to the terminal comes out as text.
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
  /// Sets the open line of `owner`, which is only compared; empty text: it has none. False if that
  /// changes nothing.
  bool set(const void* owner, std::string text);

  bool is_empty() const { return lines_.empty(); }

  /// Takes the rows off the terminal: the cursor is then where the first of them began.
  std::string erase();

  /// If nothing but the open line of `owner` is drawn, and `text` begins with it as it is drawn:
  /// takes it from the open lines and returns the rest of `text`, to be written where the cursor
  /// is. After a prompt that is where the answer has left it: in a row that is not ours to erase.
  std::optional<std::string> complete(const void* owner, std::string_view text);

  /// Puts the rows there, over those of the last time. More than half of the terminal's rows are
  /// never taken; a last row then tells how many lines are not shown.
  std::string draw(TerminalSize size);

  /// The rows stay as they are and the cursor goes below them. The terminal is somebody else's for
  /// a while; the next draw() begins anew.
  std::string leave();

 private:
  std::string to_first_row();

  std::vector<std::pair<const void*, std::string>> lines_;  ///< in order of their appearance
  int drawn_rows_ = 0;
  std::string drawn_line_;  ///< if it is the only row and was drawn as it is
};

/// `line` (UTF-8) cut to at most `columns` columns of a terminal, without what would move the
/// cursor; colours stay and end with the line. A character that may be wide counts as two columns,
/// one that combines with the one before it as one: a row may end early but never runs over.
std::string fit_to_row(std::string_view line, int columns);

}  // namespace ddprun
