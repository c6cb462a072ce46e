#include "launcher/process/open_lines.hpp"

#include <algorithm>

namespace ddprun {

namespace {

constexpr std::string_view kToRowStart = "\r";
constexpr std::string_view kEraseBelow = "\x1b[J";
constexpr std::string_view kEraseRestOfRow = "\x1b[K";
constexpr std::string_view kPlainColors = "\x1b[0m";

/// Bytes of the escape sequence at the start of `text`, which begins with ESC.
std::size_t escape_bytes(std::string_view text) {
  if (text.substr(1, 1) != "[") return std::min<std::size_t>(2, text.size());
  for (std::size_t i = 2; i < text.size(); ++i) {
    if (text[i] >= '@' && text[i] <= '~') return i + 1;
  }
  return text.size();
}

bool continues_character(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80U;
}

bool is_control(char byte) {
  return static_cast<unsigned char>(byte) < 0x20U || byte == 0x7f;
}

}  // namespace

std::string fit_to_row(std::string_view line, int columns) {
  std::string row;
  bool has_colors = false;
  int used = 0;
  while (!line.empty()) {
    std::size_t bytes = 1;
    if (line.front() == '\x1b') {
      bytes = escape_bytes(line);
      if (line[bytes - 1] == 'm') {
        row += line.substr(0, bytes);
        has_colors = true;
      }
    } else if (line.front() == '\t' || !is_control(line.front())) {
      if (!continues_character(line.front()) && ++used > columns) break;
      row += line.front() == '\t' ? ' ' : line.front();
    }
    line.remove_prefix(bytes);
  }
  if (has_colors) row += kPlainColors;
  return row;
}

bool OpenLines::set(const void* owner, std::string text) {
  const auto found = std::find_if(lines_.begin(), lines_.end(),
                                  [owner](const auto& line) { return line.first == owner; });
  if (text == (found == lines_.end() ? "" : found->second)) return false;
  if (found == lines_.end()) {
    lines_.emplace_back(owner, std::move(text));
  } else if (text.empty()) {
    lines_.erase(found);
  } else {
    found->second = std::move(text);
  }
  return true;
}

std::string OpenLines::to_first_row() {
  if (drawn_rows_ == 0) return "";
  std::string out(kToRowStart);
  if (drawn_rows_ > 1) out += "\x1b[" + std::to_string(drawn_rows_ - 1) + "A";
  drawn_rows_ = 0;
  return out;
}

std::string OpenLines::erase() {
  if (drawn_rows_ == 0) return "";
  return to_first_row() += kEraseBelow;
}

std::string OpenLines::draw(TerminalSize size) {
  if (lines_.empty()) return erase();
  const auto most = static_cast<std::size_t>(std::max(1, size.rows / 2));
  const bool has_all = lines_.size() <= most;
  const auto shown = has_all ? lines_.size() : most - 1;
  // A character in the last column may or may not take the cursor to the next row.
  const int columns = std::max(1, size.columns - 1);
  const bool had_more = drawn_rows_ > static_cast<int>(std::min(lines_.size(), most));
  std::string out = to_first_row();
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) out += '\n';
    (out += fit_to_row(lines_[i].second, columns)) += kEraseRestOfRow;
  }
  if (!has_all) {
    if (shown > 0) out += '\n';
    out += fit_to_row("(" + std::to_string(lines_.size() - shown) + " more)", columns);
    out += kEraseRestOfRow;
  }
  if (had_more) out += kEraseBelow;
  drawn_rows_ = static_cast<int>(has_all ? shown : shown + 1);
  return out;
}

std::string OpenLines::leave() {
  const bool has_rows = drawn_rows_ > 0;
  drawn_rows_ = 0;
  return has_rows ? "\n" : "";
}

}  // namespace ddprun
