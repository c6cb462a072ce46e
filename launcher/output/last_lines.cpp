#include "launcher/output/last_lines.hpp"

#include <algorithm>

namespace ddprun {

namespace {

std::string_view last_state(std::string_view line) {
  while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  const auto start = line.rfind('\r');
  return start == std::string_view::npos ? line : line.substr(start + 1);
}

/// Returns true for lines that Python writes after a fatal error's Python frames: a list of modules
/// and, in 3.14 and later, up to 32 C frames, mostly of the interpreter itself.
bool is_of_interpreter(std::string_view line) {
  return line.starts_with("Current thread's C stack trace ") ||
         line.starts_with("  Binary file \"") || line.starts_with("Extension modules: ");
}

}  // namespace

void LastLines::take(std::string_view bytes) {
  if (bytes.size() > kBytesMax) bytes.remove_prefix(bytes.size() - kBytesMax);
  const std::size_t excess =
      end_.size() + bytes.size() > kBytesMax ? end_.size() + bytes.size() - kBytesMax : 0;
  end_.erase(0, excess);
  end_ += bytes;
}

std::vector<std::string> LastLines::lines() const {
  std::vector<std::string> lines;
  std::string_view rest = end_;
  while (!rest.empty()) {
    const auto line = rest.substr(0, rest.find('\n'));
    if (!is_of_interpreter(line)) lines.emplace_back(last_state(line));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  }
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (lines.size() > kLinesMax)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kLinesMax));
  return lines;
}

}  // namespace ddprun
