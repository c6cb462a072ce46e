// Limits the number of connections that are being opened at the same time. Includes Asio; only for
// .cpp files. Single-threaded.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

namespace ddprun::ssh {

/// Each connection that is being opened is a process that uses tens of milliseconds of CPU for its
/// keys, and all share one ssh-agent. 32 hide the latency of the network and of logins; more would
/// compete for the CPU and delay each other.
inline constexpr int kOpeningMax = 32;

class OpeningWindow {
 public:
  explicit OpeningWindow(const boost::asio::any_io_executor& executor)
      : has_room_(executor, boost::asio::steady_timer::time_point::max()) {}

  /// Returns when a connection may be opened. Call leave() when it is open or has failed.
  boost::asio::awaitable<void> enter();

  void leave();

 private:
  int opening_ = 0;
  boost::asio::steady_timer has_room_;  ///< cancelled when a connection leaves
};

}  // namespace ddprun::ssh
