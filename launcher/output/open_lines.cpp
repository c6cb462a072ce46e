#include "launcher/output/open_lines.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <iterator>

namespace ddprun {

namespace {

constexpr std::string_view kToRowStart = "\r";
constexpr std::string_view kEraseBelow = "\x1b[J";
constexpr std::string_view kEraseRestOfRow = "\x1b[K";
constexpr std::string_view kPlainColors = "\x1b[0m";

/// Returns the bytes of the escape sequence at the start of `text`, which begins with ESC.
std::size_t escape_bytes(std::string_view text) {
  if (text.substr(1, 1) != "[") return std::min<std::size_t>(2, text.size());
  for (std::size_t i = 2; i < text.size(); ++i) {
    if (text[i] >= '@' && text[i] <= '~') return i + 1;
  }
  return text.size();
}

/// Returns true for a sequence with only parameters between "ESC[" and "m".
bool is_color(std::string_view escape) {
  return escape.size() > 2 && escape.back() == 'm' &&
         escape.substr(2, escape.size() - 3).find_first_not_of("0123456789;:") ==
             std::string_view::npos;
}

struct CodeRange {
  char32_t first;
  char32_t last;
};

/// Ranges with characters of two columns, from Unicode's table of East Asian widths. Includes
/// blocks that have only some: cutting a row early is harmless, an overlong row is not.
constexpr CodeRange kWide[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x2329, 0x232a},   {0x23e9, 0x23f3},
    {0x25fd, 0x25fe},   {0x2600, 0x27bf},   {0x2b1b, 0x2b1c},   {0x2b50, 0x2b55},
    {0x2e80, 0x303e},   {0x3041, 0xa4cf},   {0xa960, 0xa97c},   {0xac00, 0xd7a3},
    {0xf900, 0xfaff},   {0xfe10, 0xfe19},   {0xfe30, 0xfe6f},   {0xff01, 0xff60},
    {0xffe0, 0xffe6},   {0x16fe0, 0x1b2ff}, {0x1f004, 0x1f004}, {0x1f0cf, 0x1f0cf},
    {0x1f18e, 0x1f19a}, {0x1f1e6, 0x1faff}, {0x20000, 0x3fffd}};

int columns_of(char32_t code) {
  const bool is_wide = std::any_of(std::begin(kWide), std::end(kWide), [code](CodeRange range) {
    return code >= range.first && code <= range.last;
  });
  return is_wide ? 2 : 1;
}

}  // namespace

std::string fit_to_row(std::string_view line, int columns) {
  std::string row;
  bool has_colors = false;
  int used = 0;
  while (!line.empty()) {
    auto [bytes, code] = first_character(line);
    if (bytes == 0) {
      // Some terminals treat the byte as a control character.
      if (++used > columns) break;
      row += '?';
      bytes = 1;
    } else if (code == '\x1b') {
      bytes = escape_bytes(line);
      if (is_color(line.substr(0, bytes))) {
        row += line.substr(0, bytes);
        has_colors = true;
      }
    } else if (code == '\t' || !is_control(code)) {
      used += columns_of(code);
      if (used > columns) break;
      row += code == '\t' ? " " : line.substr(0, bytes);
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

std::optional<std::string> OpenLines::complete(const void* owner, std::string_view text) {
  const bool is_alone = drawn_rows_ == 1 && lines_.size() == 1 && lines_[0].first == owner;
  if (!is_alone || drawn_line_.empty() || !text.starts_with(drawn_line_)) return std::nullopt;
  lines_.clear();
  drawn_rows_ = 0;
  return std::string(text.substr(drawn_line_.size()));
}

std::string OpenLines::draw(TerminalSize size) {
  if (lines_.empty()) return erase();
  const auto most = static_cast<std::size_t>(std::max(1, size.rows / 2));
  const bool has_all = lines_.size() <= most;
  const auto shown = has_all ? lines_.size() : most - 1;
  // Terminals differ in whether a character in the last column moves the cursor to the next row.
  const int columns = std::max(1, size.columns - 1);
  const bool had_more = drawn_rows_ > static_cast<int>(std::min(lines_.size(), most));
  std::string out = to_first_row();
  drawn_line_.clear();
  for (std::size_t i = 0; i < shown; ++i) {
    if (i > 0) out += '\n';
    const auto row = fit_to_row(lines_[i].second, columns);
    (out += row) += kEraseRestOfRow;
    if (lines_.size() == 1 && row == lines_[i].second) drawn_line_ = row;
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
