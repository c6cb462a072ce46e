#include "launcher/ssh/upward.hpp"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <utility>

namespace ddprun::ssh {

namespace asio = boost::asio;

Upward::Upward(const asio::any_io_executor& executor, int fd)
    : stream_(executor, fd),
      pending_(kGreeting),
      news_(executor, asio::steady_timer::time_point::max()),
      room_(executor, asio::steady_timer::time_point::max()) {}

void Upward::take(NodeReport report) {
  if (is_broken_) return;
  pending_ += encode(report);
  news_.cancel();
}

asio::awaitable<void> Upward::room() {
  boost::system::error_code ignored;
  while (!is_broken_ && pending_.size() >= kUpwardBytesMax) {
    co_await room_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

asio::awaitable<void> Upward::write() {
  boost::system::error_code error;
  while (!is_broken_ && (!pending_.empty() || !has_ended_)) {
    if (pending_.empty()) {
      co_await news_.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    const auto bytes = std::exchange(pending_, {});
    room_.cancel();
    co_await asio::async_write(stream_, asio::buffer(bytes),
                               asio::redirect_error(asio::use_awaitable, error));
    is_broken_ = error.failed();
  }
  room_.cancel();
}

void Upward::end() {
  has_ended_ = true;
  news_.cancel();
}

}  // namespace ddprun::ssh
