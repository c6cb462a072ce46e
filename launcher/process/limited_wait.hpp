// Waits for descriptors, one after the other, within one limit. The limit can be put off, by as
// long as the whole run was suspended, or brought forward to now. One thread.
#pragma once

#include <ddprun/deadline.hpp>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

namespace ddprun {

class LimitedWait {
 public:
  explicit LimitedWait(boost::asio::any_io_executor executor);

  /// Starts the limit; waits before it return at once.
  void begin(Deadline::Duration allowed) { limit_ = Deadline::after(allowed); }

  bool is_over() const { return limit_.passed(); }

  /// True when the descriptor can be read, false when the limit has passed first.
  boost::asio::awaitable<bool> until_readable(int fd);

  /// Returns when the descriptor reports a change by POLLPRI, when the limit has passed, or for no
  /// reason.
  boost::asio::awaitable<void> until_change(int fd);

  void put_off(Deadline::Duration by);

  /// The limit has passed now.
  void end();

 private:
  using Descriptor = boost::asio::posix::stream_descriptor;
  boost::asio::awaitable<void> wait(int fd, Descriptor::wait_type what);

  boost::asio::any_io_executor executor_;
  Deadline limit_ = Deadline::after({});
  Descriptor* waited_for_ = nullptr;  ///< in the frame of wait()
};

}  // namespace ddprun
