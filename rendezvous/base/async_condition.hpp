// A condition variable for the coroutines of one executor. Single-threaded.
#pragma once

#include "rendezvous/base/await.hpp"
#include <ddprun/deadline.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <utility>

namespace ddprun {

/// Notifications without a waiter are lost, and waits may end spuriously: check a condition in a
/// loop. The destructor ends all waits.
class AsyncCondition {
 public:
  explicit AsyncCondition(const boost::asio::any_io_executor& executor)
      : timer_(executor, Deadline::Clock::time_point::max()) {}

  void notify_one() { timer_.cancel_one(); }
  void notify_all() { timer_.cancel(); }

  /// To be awaited.
  auto wait() { return timer_.async_wait(kAwait); }

  /// The same until a deadline, for a single waiter: a call ends the waits of others.
  auto wait_until(Deadline deadline) {
    timer_.expires_at(deadline.time());
    return wait();
  }

  /// Calls `handler` after the next notification.
  template <typename Handler>
  void call_once(Handler handler) {
    timer_.async_wait([handler = std::move(handler)](boost::system::error_code) { handler(); });
  }

 private:
  boost::asio::steady_timer timer_;
};

}  // namespace ddprun
