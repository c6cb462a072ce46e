#include "launcher/ssh/held_line.hpp"

#include <algorithm>
#include <utility>

namespace ddprun::ssh {

namespace {

constexpr std::string_view kLineEnds = "\r\n";

}  // namespace

std::string HeldLine::add(std::string_view bytes) {
  held_ += bytes;
  const auto end = held_.find_last_not_of(kLineEnds);
  const auto newline = end == std::string::npos ? end : held_.rfind('\n', end);
  auto begin = newline == std::string::npos ? 0 : newline + 1;
  if (held_.size() - begin > kHeldLineBytesMax) begin = held_.size();
  auto shown = held_.substr(0, begin);
  held_.erase(0, begin);
  return shown;
}

std::string HeldLine::release() {
  return std::exchange(held_, {});
}

std::string HeldLine::text() const {
  const auto begin = std::min(held_.find_first_not_of(kLineEnds), held_.size());
  const auto end = held_.find_last_not_of(kLineEnds);
  return end == std::string::npos ? "" : held_.substr(begin, end + 1 - begin);
}

}  // namespace ddprun::ssh
