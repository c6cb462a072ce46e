// Waits for descriptors in sequence, within one time limit of the run, which can be ended early.
// Single-threaded.
#pragma once

#include "rendezvous/base/run_clock.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

namespace ddprun {

class LimitedWait {
 public:
  explicit LimitedWait(boost::asio::any_io_executor executor);

  /// Starts the limit. Waits before this call return immediately.
  void begin(RunClock::duration allowed) { limit_ = RunClock::now() + allowed; }

  bool is_over() const { return RunClock::now() >= limit_; }

  /// Returns true when the descriptor is readable, false if the limit passes first.
  boost::asio::awaitable<bool> until_readable(int fd);

  /// Returns when the descriptor reports POLLPRI or the limit has passed; may return spuriously.
  boost::asio::awaitable<void> until_change(int fd);

  /// Ends the limit now.
  void end();

 private:
  using Descriptor = boost::asio::posix::stream_descriptor;
  boost::asio::awaitable<void> wait(int fd, Descriptor::wait_type what);

  boost::asio::any_io_executor executor_;
  RunClock::time_point limit_ = RunClock::now();
  Descriptor* waited_for_ = nullptr;  ///< in the frame of wait()
};

}  // namespace ddprun
