// A time limit of a run: calls a function once unless cancelled. Single-threaded.
#pragma once

#include "rendezvous/base/run_clock.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <memory>
#include <utility>

namespace ddprun {

class LimitTimer {
 public:
  explicit LimitTimer(const boost::asio::any_io_executor& executor) : timer_(executor) {}

  /// Calls `on_expiry` at `when`, unless the timer is restarted, cancelled or destroyed before.
  void start(RunClock::time_point when, std::function<void()> on_expiry) {
    timer_.expires_at(when);
    on_expiry_ = std::move(on_expiry);
    wait();
  }

  void cancel() {
    on_expiry_ = nullptr;
    timer_.cancel();
  }

  bool is_running() const { return static_cast<bool>(on_expiry_); }
  RunClock::time_point expiry() const { return timer_.expiry(); }

 private:
  void wait() {
    timer_.async_wait([this, owner = std::weak_ptr(owner_)](boost::system::error_code error) {
      // A due handler is called without an error even if the timer has been destroyed or restarted,
      // or the run was suspended, in the meantime.
      if (error || owner.expired() || !on_expiry_) return;
      if (RunClock::now() < timer_.expiry()) return wait();
      std::exchange(on_expiry_, nullptr)();
    });
  }

  RunTimer timer_;
  std::function<void()> on_expiry_;
  std::shared_ptr<const bool> owner_ = std::make_shared<const bool>(true);  ///< expires with this
};

}  // namespace ddprun
