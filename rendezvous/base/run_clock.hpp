// Clock for the time limits of starting, stopping and restarting workers. It stops while the run is
// suspended (Ctrl-Z), so that no limit passes during that time. A process takes part in one run, so
// there is only one such clock. Thread-safe.
#pragma once

#include <boost/asio/basic_waitable_timer.hpp>

#include <atomic>
#include <chrono>

namespace ddprun {

class RunClock {
 public:
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  /// Equal to the steady clock's time until the first suspension, and behind it afterwards.
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr bool is_steady = true;

  static time_point now() noexcept {
    return std::chrono::steady_clock::now() - duration(suspended_.load(std::memory_order_relaxed));
  }

  /// Returns `when` in the steady clock, assuming that the run is not suspended before.
  static time_point to_steady(time_point when) noexcept {
    if (when == time_point::max()) return when;
    return when + duration(suspended_.load(std::memory_order_relaxed));
  }

  /// Subtracts the duration of a suspension that has just ended.
  static void add_suspension(duration time) noexcept {
    suspended_.fetch_add(time.count(), std::memory_order_relaxed);
  }

 private:
  static inline std::atomic<rep> suspended_ = 0;
};

/// A timer of the run clock.
using RunTimer = boost::asio::basic_waitable_timer<RunClock>;

}  // namespace ddprun
