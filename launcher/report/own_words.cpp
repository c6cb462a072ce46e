#include "launcher/report/own_words.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {

namespace {

/// Separates a line's key and text; does not occur in printable text.
constexpr char kSeparator = '\x1f';

OwnWords words_of(std::string_view line) {
  OwnWords words;
  if (line.empty()) return words;
  words.kind = static_cast<OwnWords::Kind>(line.front());
  line.remove_prefix(1);
  const auto separator = line.find(kSeparator);
  if (separator != std::string_view::npos) {
    words.key = line.substr(0, separator);
    line.remove_prefix(separator + 1);
  }
  // The agent's host may be untrusted.
  words.text = printable(line);
  return words;
}

}  // namespace

std::string marked(const std::string& mark, const OwnWords& words) {
  auto line = mark + static_cast<char>(words.kind);
  if (!words.key.empty()) line += words.key + kSeparator;
  return line + words.text + "\n";
}

std::string marked_report(const std::string& mark, const std::string& report) {
  std::string lines;
  for (std::size_t begin = 0; begin < report.size();) {
    const auto end = std::min(report.find('\n', begin), report.size());
    lines +=
        marked(mark, {.kind = OwnWords::Kind::report, .text = report.substr(begin, end - begin)});
    begin = end + 1;
  }
  return lines + marked(mark, {.kind = OwnWords::Kind::report_end});
}

std::vector<OwnWordsReader::Piece> OwnWordsReader::take(std::string_view bytes) {
  std::vector<Piece> pieces;
  const auto whole = std::exchange(held_, {}).append(bytes);
  std::string_view rest = whole;
  while (!rest.empty()) {
    const auto at = mark_.empty() ? rest.size() : find_begun(rest, mark_);
    const auto newline = rest.find('\n', at);
    const bool is_too_long =
        newline == std::string_view::npos && rest.size() - at > kOwnLineBytesMax;
    if (at > 0 || is_too_long) {
      const auto size = is_too_long ? rest.size() : at;
      pieces.push_back({.bytes = std::string(rest.substr(0, size))});
      rest.remove_prefix(size);
    } else if (newline == std::string_view::npos) {
      held_ = rest;
      break;
    } else {
      const auto line = rest.substr(mark_.size(), newline - mark_.size());
      pieces.push_back({.is_own = true, .words = words_of(line)});
      rest.remove_prefix(newline + 1);
    }
  }
  return pieces;
}

std::string OwnWordsReader::finish() {
  return std::exchange(held_, {});
}

}  // namespace ddprun
