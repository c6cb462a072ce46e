// Waits for descriptors, one after the other, within one time limit of the run. The limit can be
// ended early. One thread.
#pragma once

#include "rendezvous/base/run_clock.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

namespace ddprun {

class LimitedWait {
 public:
  explicit LimitedWait(boost::asio::any_io_executor executor);

  /// Starts the limit; waits before it return at once.
  void begin(RunClock::duration allowed) { limit_ = RunClock::now() + allowed; }

  bool is_over() const { return RunClock::now() >= limit_; }

  /// True when the descriptor can be read, false when the limit has passed first.
  boost::asio::awaitable<bool> until_readable(int fd);

  /// Returns when the descriptor reports a change by POLLPRI, when the limit has passed, or for no
  /// reason.
  boost::asio::awaitable<void> until_change(int fd);

  /// The limit has passed now.
  void end();

 private:
  using Descriptor = boost::asio::posix::stream_descriptor;
  boost::asio::awaitable<void> wait(int fd, Descriptor::wait_type what);

  boost::asio::any_io_executor executor_;
  RunClock::time_point limit_ = RunClock::now();
  Descriptor* waited_for_ = nullptr;  ///< in the frame of wait()
};

}  // namespace ddprun
