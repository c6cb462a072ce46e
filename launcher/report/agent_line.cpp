#include "launcher/report/agent_line.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <utility>

namespace ddprun {

namespace {

/// Separates a line's key and text; does not occur in printable text.
constexpr char kSeparator = '\x1f';

AgentLine decode_line(std::string_view line) {
  AgentLine decoded;
  if (line.empty()) return decoded;
  decoded.kind = static_cast<AgentLine::Kind>(line.front());
  line.remove_prefix(1);
  const auto separator = line.find(kSeparator);
  if (separator != std::string_view::npos) {
    decoded.key = line.substr(0, separator);
    line.remove_prefix(separator + 1);
  }
  // The agent's host may be untrusted.
  decoded.text = printable(line);
  return decoded;
}

}  // namespace

std::string marked(const std::string& mark, const AgentLine& line) {
  auto bytes = mark + static_cast<char>(line.kind);
  if (!line.key.empty()) bytes += line.key + kSeparator;
  return bytes + line.text + "\n";
}

std::string marked_report(const std::string& mark, const std::string& report) {
  std::string lines;
  for (std::size_t begin = 0; begin < report.size();) {
    const auto end = std::min(report.find('\n', begin), report.size());
    lines +=
        marked(mark, {.kind = AgentLine::Kind::report, .text = report.substr(begin, end - begin)});
    begin = end + 1;
  }
  return lines + marked(mark, {.kind = AgentLine::Kind::report_end});
}

std::vector<AgentLineReader::Piece> AgentLineReader::take(std::string_view bytes) {
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
      pieces.push_back({.is_own = true, .line = decode_line(line)});
      rest.remove_prefix(newline + 1);
    }
  }
  return pieces;
}

std::string AgentLineReader::finish() {
  return std::exchange(held_, {});
}

}  // namespace ddprun
