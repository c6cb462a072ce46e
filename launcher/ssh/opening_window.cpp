#include "launcher/ssh/opening_window.hpp"

namespace ddprun::ssh {

boost::asio::awaitable<void> OpeningWindow::enter() {
  while (opening_ == kOpeningMax) co_await room_.wait();
  ++opening_;
}

void OpeningWindow::leave() {
  --opening_;
  room_.notify_one();
}

}  // namespace ddprun::ssh
