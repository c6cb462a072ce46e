#include "launcher/process/stack_captures.hpp"

#include <boost/asio/co_spawn.hpp>

#include <exception>
#include <utility>

namespace ddprun {

namespace asio = boost::asio;

StackCaptures::StackCaptures(asio::any_io_executor executor, Deadline::Duration limit, Hooks hooks,
                             Log log)
    : executor_(std::move(executor)),
      limit_(limit),
      hooks_(std::move(hooks)),
      log_(std::move(log)) {}

bool StackCaptures::take(StackCapture capture) {
  if (next_) return false;
  Planned planned{.capture = std::move(capture), .deadline = std::nullopt};
  if (is_busy_) {
    next_ = std::move(planned);
  } else {
    begin(std::move(planned));
  }
  return true;
}

void StackCaptures::take_last(StackCapture capture) {
  Planned planned{.capture = std::move(capture), .deadline = Deadline::after(limit_)};
  if (!is_busy_) return begin(std::move(planned));
  next_ = std::move(planned);
  hooks_.interrupt();
}

void StackCaptures::begin(Planned planned) {
  is_busy_ = true;
  ++changes_;
  const auto deadline = planned.deadline.value_or(Deadline::after(limit_));
  auto taking = planned.capture.take(planned.capture.moment, deadline);
  // The handler keeps this object alive.
  asio::co_spawn(executor_, std::move(taking),
                 [this, capture = std::move(planned.capture)](const std::exception_ptr& failure) {
                   if (failure) report(failure);
                   end(capture);
                 });
}

void StackCaptures::report(const std::exception_ptr& failure) const {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    write_log(log_, LogLevel::warn, std::string("no stacks: ") + error.what());
  }
}

void StackCaptures::end(const StackCapture& capture) {
  ++changes_;
  if (capture.then) capture.then();
  if (next_) {
    begin(*std::exchange(next_, std::nullopt));
  } else {
    is_busy_ = false;
    hooks_.on_idle();
  }
}

}  // namespace ddprun
