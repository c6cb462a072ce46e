// A point in time by which an operation must complete. It is created once, by the outermost caller,
// and passed down, so that layers do not restart a duration. Keeps the allowed time for error
// messages. Thread-safe.
#pragma once

#include <chrono>
#include <string>

namespace ddprun {

/// A point in time of the steady clock, or none.
class Deadline {
 public:
  /// The clock of all deadlines.
  using Clock = std::chrono::steady_clock;
  /// A duration of that clock.
  using Duration = Clock::duration;

  /// Returns a deadline `allowed` from now. A deadline with a negative duration has passed.
  static Deadline after(Duration allowed);

  /// Returns a deadline `allowed` after `start`, for callers that have already read the clock.
  static Deadline from(Clock::time_point start, Duration allowed);

  /// Returns a deadline with the same start that passes `grace` later.
  Deadline later(Duration grace) const;

  /// Returns a deadline that never passes, for waits that another mechanism always ends.
  static Deadline never();

  /// Returns true if there is no limit.
  bool is_never() const { return time_ == Clock::time_point::max(); }
  /// Returns true if the deadline has passed; always false without a limit.
  bool passed() const { return Clock::now() >= time_; }

  /// Returns the time left, at least zero; Duration::max() if there is no limit.
  Duration remaining() const;

  /// Returns the time left in whole milliseconds, rounded up, for poll(2) and similar calls; -1 if
  /// there is no limit.
  int remaining_poll_milliseconds() const;

  /// Returns the point in time; Clock::time_point::max() if there is no limit.
  Clock::time_point time() const { return time_; }
  /// Returns the time since the start: the creation, or `start` of from().
  Duration elapsed() const { return Clock::now() - start_; }
  /// Returns the time from the start to the limit; Duration::max() if there is no limit.
  Duration allowed() const;

  /// Returns text for error messages, such as "after 3.2 s (3.0 s allowed)".
  std::string describe() const;

 private:
  Deadline(Clock::time_point start, Clock::time_point time) : start_(start), time_(time) {}

  Clock::time_point start_;
  Clock::time_point time_;
};

}  // namespace ddprun
