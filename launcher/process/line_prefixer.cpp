#include "launcher/process/line_prefixer.hpp"

#include <algorithm>

namespace ddprun {

std::string LinePrefixer::take(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const auto newline = bytes.find('\n');
    const bool is_complete = newline != std::string_view::npos;
    const std::size_t room = kConsoleLineBytesMax - partial_.size();
    const std::size_t length = std::min(is_complete ? newline : bytes.size(), room);
    partial_.append(bytes.substr(0, length));
    bytes.remove_prefix(length);
    // A full line is broken only if it goes on, which the next byte tells.
    if (bytes.empty()) break;
    const bool ends_here = bytes.front() == '\n';
    append_segment(out, partial_);
    partial_.clear();
    out += '\n';
    interrupt();
    if (ends_here) bytes.remove_prefix(1);
  }
  return out;
}

std::string LinePrefixer::flush() {
  std::string out;
  if (!partial_.empty()) append_segment(out, partial_);
  partial_.clear();
  return out;
}

void LinePrefixer::append_segment(std::string& out, std::string_view segment) {
  if (needs_prefix_) out += prefix_;
  is_inside_line_ = true;
  needs_prefix_ = !segment.empty() && segment.back() == '\r';
  for (auto next = segment.find('\r'); next != std::string_view::npos; next = segment.find('\r')) {
    out += segment.substr(0, next + 1);
    segment.remove_prefix(next + 1);
    if (!segment.empty()) out += prefix_;
  }
  out += segment;
}

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
    lines.emplace_back(line);
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  }
  if (lines.size() > kLinesMax)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kLinesMax));
  return lines;
}

}  // namespace ddprun
