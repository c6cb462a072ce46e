#include "launcher/output/line_filter.hpp"

#include <algorithm>

namespace ddprun {

std::string LineFilter::take(std::string_view bytes, LinePrefixer::TimePoint now) {
  return matching(lines_.take(bytes, now), now);
}

std::string LineFilter::finish(LinePrefixer::TimePoint now) {
  return matching(lines_.finish(), now);
}

std::string LineFilter::matching(std::string_view lines, LinePrefixer::TimePoint now) {
  std::string out;
  while (!lines.empty()) {
    const auto line = lines.substr(0, lines.find('\n') + 1);
    if (matches(line)) out += prefixer_.take(line, now);
    lines.remove_prefix(line.size());
  }
  return out;
}

bool LineFilter::matches(std::string_view line) const {
  return std::any_of(texts_.begin(), texts_.end(), [line](const std::string& text) {
    return line.find(text) != std::string_view::npos;
  });
}

}  // namespace ddprun
