// Time limits for asynchronous operations. Includes Asio; only for .cpp files. Runs on the calling
// coroutine's executor, which must have one thread.
//
// The operators of Asio's awaitables are not used: `operation || timer` waits for the timer when
// the operation fails early, and loses the error.
#pragma once

#include <ddprun/deadline.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include <exception>
#include <memory>
#include <optional>
#include <utility>

namespace ddprun {

namespace deadline_internal {

/// State shared by the coroutine and the timer's handler, which may run slightly later.
struct Watch {
  explicit Watch(const boost::asio::any_io_executor& executor) : timer(executor) {}

  void begin(const std::shared_ptr<Watch>& self, Deadline deadline) {
    if (deadline.is_never()) return;
    timer.expires_at(deadline.time());
    timer.async_wait([self](const boost::system::error_code& error) {
      if (error || self->is_over) return;
      self->has_timed_out = true;
      self->stop.emit(boost::asio::cancellation_type::terminal);
    });
  }

  void end() {
    is_over = true;
    timer.cancel();
  }

  boost::asio::steady_timer timer;
  boost::asio::cancellation_signal stop;
  bool has_timed_out = false;
  bool is_over = false;
};

inline bool is_cancellation(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const boost::system::system_error& error) {
    return error.code() == boost::asio::error::operation_aborted;
  } catch (...) {
    return false;
  }
}

}  // namespace deadline_internal

/// Runs `operation` and returns its result, or nullopt if the deadline passed first; the operation
/// has then been cancelled and has ended. Rethrows its exceptions immediately. If the caller is
/// cancelled, before or during the operation, throws operation_aborted like elsewhere in Asio. A
/// result that arrives at the deadline counts.
template <typename Result>
boost::asio::awaitable<std::optional<Result>> with_deadline(
    boost::asio::awaitable<Result> operation, Deadline deadline) {
  namespace asio = boost::asio;
  const auto executor = co_await asio::this_coro::executor;
  const auto cancellation = co_await asio::this_coro::cancellation_state;
  if (cancellation.cancelled() != asio::cancellation_type::none) {
    throw boost::system::system_error(asio::error::operation_aborted);
  }
  const auto watch = std::make_shared<deadline_internal::Watch>(executor);
  watch->begin(watch, deadline);
  // Forwards a cancellation of the caller to the operation. The caller's slot has no other use
  // while the operation runs.
  auto slot = cancellation.slot();
  if (slot.is_connected()) {
    slot.assign([watch](asio::cancellation_type type) { watch->stop.emit(type); });
  }
  std::optional<Result> result;
  std::exception_ptr exception;
  auto token = asio::bind_cancellation_slot(watch->stop.slot(), asio::use_awaitable);
  try {
    result = co_await asio::co_spawn(executor, std::move(operation), std::move(token));
  } catch (...) {
    exception = std::current_exception();
  }
  if (slot.is_connected()) slot.clear();
  watch->end();
  if (!exception) co_return result;
  if (watch->has_timed_out && deadline_internal::is_cancellation(exception)) co_return std::nullopt;
  std::rethrow_exception(exception);
}

/// Like above, for an operation without a result. Returns true if it ended in time.
inline boost::asio::awaitable<bool> with_deadline(boost::asio::awaitable<void> operation,
                                                  Deadline deadline) {
  const auto run = [](boost::asio::awaitable<void> inner) -> boost::asio::awaitable<bool> {
    co_await std::move(inner);
    co_return true;
  };
  auto wrapped = run(std::move(operation));
  const auto done = co_await with_deadline<bool>(std::move(wrapped), deadline);
  co_return done.has_value();
}

}  // namespace ddprun
