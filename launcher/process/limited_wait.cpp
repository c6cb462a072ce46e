#include "launcher/process/limited_wait.hpp"

#include "rendezvous/base/with_deadline.hpp"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <poll.h>
#include <utility>

namespace ddprun {

namespace asio = boost::asio;

namespace {

bool is_readable(int fd) {
  pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&ready, 1, 0) > 0;
}

/// Registers a descriptor without owning it, and releases it however the wait ends.
class RegisteredDescriptor {
 public:
  RegisteredDescriptor(asio::posix::stream_descriptor& descriptor,
                       asio::posix::stream_descriptor*& current)
      : descriptor_(descriptor), current_(current) {
    current_ = &descriptor_;
  }
  ~RegisteredDescriptor() {
    current_ = nullptr;
    descriptor_.release();
  }
  RegisteredDescriptor(const RegisteredDescriptor&) = delete;
  RegisteredDescriptor& operator=(const RegisteredDescriptor&) = delete;

 private:
  asio::posix::stream_descriptor& descriptor_;
  asio::posix::stream_descriptor*& current_;
};

}  // namespace

LimitedWait::LimitedWait(asio::any_io_executor executor) : executor_(std::move(executor)) {}

asio::awaitable<bool> LimitedWait::until_readable(int fd) {
  // Checked after each return: Asio may report an event of another descriptor with the same number,
  // and the run may have been suspended.
  while (!is_readable(fd)) {
    if (is_over()) co_return false;
    co_await wait(fd, Descriptor::wait_read);
  }
  co_return true;
}

asio::awaitable<void> LimitedWait::until_change(int fd) {
  return wait(fd, Descriptor::wait_error);
}

asio::awaitable<void> LimitedWait::wait(int fd, Descriptor::wait_type what) {
  if (is_over()) co_return;
  Descriptor descriptor(executor_, fd);
  const RegisteredDescriptor registered(descriptor, waited_for_);
  boost::system::error_code ignored;
  auto ready = descriptor.async_wait(what, asio::redirect_error(asio::use_awaitable, ignored));
  co_await with_deadline(std::move(ready), Deadline::after(limit_ - RunClock::now()));
}

void LimitedWait::end() {
  limit_ = RunClock::now();
  if (waited_for_ != nullptr) waited_for_->cancel();
}

}  // namespace ddprun
