// A time limit that can be put off, as all limits are by as long as the whole run was suspended.
// One thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

namespace ddprun {

class LimitTimer {
 public:
  using Clock = std::chrono::steady_clock;

  explicit LimitTimer(const boost::asio::any_io_executor& executor) : timer_(executor) {}

  /// Calls `on_expiry` then, unless the timer has been started again, cancelled or destroyed
  /// before.
  void start(Clock::time_point when, std::function<void()> on_expiry) {
    timer_.expires_at(when);
    on_expiry_ = std::move(on_expiry);
    wait();
  }

  void cancel() {
    on_expiry_ = nullptr;
    timer_.cancel();
  }

  /// Does nothing if the timer is not running.
  void put_off(Clock::duration by) {
    if (!on_expiry_) return;
    timer_.expires_at(timer_.expiry() + by);
    wait();
  }

  bool is_running() const { return static_cast<bool>(on_expiry_); }
  Clock::time_point expiry() const { return timer_.expiry(); }

 private:
  void wait() {
    timer_.async_wait([this, owner = std::weak_ptr(owner_)](boost::system::error_code error) {
      // What has come due is called without an error even if the timer has gone since. It may also
      // have been put off in between: then there is another wait.
      if (error || owner.expired()) return;
      if (!on_expiry_ || Clock::now() < timer_.expiry()) return;
      std::exchange(on_expiry_, nullptr)();
    });
  }

  boost::asio::steady_timer timer_;
  std::function<void()> on_expiry_;
  std::shared_ptr<const bool> owner_ = std::make_shared<const bool>(true);  ///< goes with the timer
};

}  // namespace ddprun
