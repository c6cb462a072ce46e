// A point in time by which an operation must complete. Created once, at the edge, and passed down,
// so that layers do not restart a duration. Remembers the allowed time for error messages.
// Thread-safe.
#pragma once

#include <chrono>
#include <string>

namespace ddprun {

/// A point in time of the steady clock, or none.
class Deadline {
 public:
  /// The clock of all deadlines.
  using Clock = std::chrono::steady_clock;
  /// A span of that clock.
  using Duration = Clock::duration;

  /// `allowed` from now on. A negative duration has already passed.
  static Deadline after(Duration allowed);

  /// `allowed` after `start`, for callers that have already read the clock.
  static Deadline from(Clock::time_point start, Duration allowed);

  /// No limit. For waits that another mechanism is sure to end.
  static Deadline never();

  /// Whether there is no limit.
  bool is_never() const { return time_ == Clock::time_point::max(); }
  /// Whether the time has come; never without a limit.
  bool passed() const { return Clock::now() >= time_; }

  /// Time left, at least zero; Duration::max() if there is no limit.
  Duration remaining() const;

  /// Time left in whole milliseconds, rounded up, for poll(2) and its like: -1 if there is no
  /// limit.
  int remaining_poll_milliseconds() const;

  /// The time itself; Clock::time_point::max() if there is no limit.
  Clock::time_point time() const { return time_; }
  /// Time since it was made, or since `start`.
  Duration elapsed() const { return Clock::now() - start_; }
  /// Time between its start and the limit; Duration::max() if there is no limit.
  Duration allowed() const;

  /// "after 3.2 s (3.0 s allowed)", for error messages.
  std::string describe() const;

 private:
  Deadline(Clock::time_point start, Clock::time_point time) : start_(start), time_(time) {}

  Clock::time_point start_;
  Clock::time_point time_;
};

}  // namespace ddprun
