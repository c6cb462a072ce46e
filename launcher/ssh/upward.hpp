// Reports on their way up, over the standard output of this process. Includes Asio, so it is for
// .cpp files. One thread.
#pragma once

#include "launcher/ssh/child.hpp"
#include <ddprun/deadline.hpp>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <string>

namespace ddprun::ssh {

/// What may wait to be sent before the nodes' output is left where it is.
inline constexpr std::size_t kUpwardBytesMax = 1U << 20;

class Upward : public ReportSink {
 public:
  /// Owns the descriptor.
  Upward(const boost::asio::any_io_executor& executor, int fd);

  void take(NodeReport report) override;
  boost::asio::awaitable<void> room() override;

  /// Writes what it is given until the end() of it, or until nobody reads any more.
  boost::asio::awaitable<void> write();

  /// Nothing more will come.
  void end();

 private:
  boost::asio::posix::stream_descriptor stream_;
  std::string pending_;
  bool has_ended_ = false;
  bool is_broken_ = false;
  boost::asio::steady_timer news_;
  boost::asio::steady_timer room_;
};

}  // namespace ddprun::ssh
