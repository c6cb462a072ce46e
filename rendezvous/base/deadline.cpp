#include <ddprun/deadline.hpp>

#include <algorithm>
#include <cstdio>
#include <limits>

namespace ddprun {

namespace {

double seconds(Deadline::Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

Deadline Deadline::after(Duration allowed) {
  return from(Clock::now(), allowed);
}

Deadline Deadline::from(Clock::time_point start, Duration allowed) {
  // Clamped, so that "a very long time" cannot overflow into the past.
  return Deadline(start, start + std::min(allowed, Clock::time_point::max() - start));
}

Deadline Deadline::later(Duration grace) const {
  return Deadline(start_, time_ + std::min(grace, Clock::time_point::max() - time_));
}

Deadline Deadline::never() {
  return Deadline(Clock::now(), Clock::time_point::max());
}

Deadline::Duration Deadline::remaining() const {
  if (is_never()) return Duration::max();
  return std::max(time_ - Clock::now(), Duration::zero());
}

int Deadline::remaining_poll_milliseconds() const {
  if (is_never()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(remaining()).count();
  return static_cast<int>(std::min<decltype(left)>(left, std::numeric_limits<int>::max()));
}

Deadline::Duration Deadline::allowed() const {
  return is_never() ? Duration::max() : time_ - start_;
}

std::string Deadline::describe() const {
  char text[80];
  if (is_never()) {
    std::snprintf(text, sizeof text, "after %.1f s (no limit)", seconds(elapsed()));
  } else {
    std::snprintf(text, sizeof text, "after %.1f s (%.1f s allowed)", seconds(elapsed()),
                  seconds(allowed()));
  }
  return text;
}

}  // namespace ddprun
