// Limits the number of connections that are being opened at the same time. Includes Asio; only for
// .cpp files. Single-threaded.
#pragma once

#include "rendezvous/base/async_condition.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

namespace ddprun::ssh {

/// Each connection that is being opened is a process that uses tens of milliseconds of CPU for its
/// keys, and all share one ssh-agent. 32 hide the latency of the network and of logins; more would
/// compete for the CPU and delay each other.
inline constexpr int kOpeningMax = 32;

class OpeningWindow {
 public:
  explicit OpeningWindow(const boost::asio::any_io_executor& executor) : room_(executor) {}

  /// Returns when a connection may be opened. Call leave() when it is open or has failed.
  boost::asio::awaitable<void> enter();

  void leave();

 private:
  int opening_ = 0;
  AsyncCondition room_;  ///< a connection has left
};

}  // namespace ddprun::ssh
