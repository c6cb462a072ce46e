#include "launcher/ssh/opening_window.hpp"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace ddprun::ssh {

namespace asio = boost::asio;

asio::awaitable<void> OpeningWindow::enter() {
  boost::system::error_code ignored;
  while (opening_ == kOpeningMax) {
    co_await has_room_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  ++opening_;
}

void OpeningWindow::leave() {
  --opening_;
  has_room_.cancel_one();
}

}  // namespace ddprun::ssh
