#include "launcher/report/own_words.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {

namespace {

/// Between a line's key and its text. Printable text has none.
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
  // The agent may be any program of a host that is not trusted.
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

OwnWordsReader::Beginning OwnWordsReader::beginning_of(std::string_view rest) const {
  const auto known = rest.substr(0, mark_.size());
  if (mark_.empty() || !mark_.starts_with(known)) return Beginning::others;
  const bool is_whole = rest.find('\n') != std::string_view::npos;
  if (known.size() == mark_.size() && is_whole) return Beginning::own;
  return rest.size() > kOwnLineBytesMax ? Beginning::others : Beginning::unknown;
}

std::vector<OwnWordsReader::Piece> OwnWordsReader::take(std::string_view bytes) {
  std::vector<Piece> pieces;
  const auto whole = std::exchange(held_, {}).append(bytes);
  std::string_view rest = whole;
  while (!rest.empty()) {
    const auto beginning = is_at_line_start_ ? beginning_of(rest) : Beginning::others;
    if (beginning == Beginning::unknown) {
      held_ = rest;
      break;
    }
    const auto newline = rest.find('\n');
    is_at_line_start_ = newline != std::string_view::npos;
    const auto line = rest.substr(0, is_at_line_start_ ? newline + 1 : rest.size());
    rest.remove_prefix(line.size());
    if (beginning == Beginning::own) {
      const auto text = line.substr(mark_.size(), line.size() - mark_.size() - 1);
      pieces.push_back({.is_own = true, .words = words_of(text)});
    } else if (pieces.empty() || pieces.back().is_own) {
      pieces.push_back({.bytes = std::string(line)});
    } else {
      pieces.back().bytes += line;
    }
  }
  return pieces;
}

std::string OwnWordsReader::finish() {
  is_at_line_start_ = true;
  return std::exchange(held_, {});
}

}  // namespace ddprun
