// The clock of the time limits for starting, stopping and restarting workers. It stands still while
// the run is suspended (Ctrl-Z), so that none of them passes meanwhile. A process takes part in one
// run, so there is one such clock. Any thread may read it.
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
  /// Equal to that of the steady clock until the first suspension, and behind it afterwards.
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr bool is_steady = true;

  static time_point now() noexcept {
    return std::chrono::steady_clock::now() - duration(suspended_.load(std::memory_order_relaxed));
  }

  /// Returns the same moment of the steady clock, if the run is not suspended until then.
  static time_point to_steady(time_point when) noexcept {
    if (when == time_point::max()) return when;
    return when + duration(suspended_.load(std::memory_order_relaxed));
  }

  /// Subtracts the time for which the run has just been suspended.
  static void add_suspension(duration time) noexcept {
    suspended_.fetch_add(time.count(), std::memory_order_relaxed);
  }

 private:
  static inline std::atomic<rep> suspended_ = 0;
};

/// A timer of that clock.
using RunTimer = boost::asio::basic_waitable_timer<RunClock>;

}  // namespace ddprun
