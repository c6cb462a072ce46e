#include "rendezvous/base/with_deadline.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <chrono>
#include <stdexcept>
#include <string>

namespace with_deadline_test {

namespace asio = boost::asio;
using ddprun::Deadline;
using ddprun::with_deadline;
using namespace std::chrono_literals;

namespace {

asio::awaitable<int> answer_at_once() {
  co_return 42;
}

asio::awaitable<int> fail_at_once() {
  throw std::runtime_error("refused");
  co_return 0;
}

/// Ends only when it is cancelled, and reports that.
asio::awaitable<int> wait_for_ever(bool& was_cancelled) {
  const auto executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor, asio::steady_timer::time_point::max());
  const auto [error] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  was_cancelled = error == asio::error::operation_aborted;
  throw boost::system::system_error(error);
}

asio::awaitable<void> wait_a_moment() {
  const auto executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor, 1ms);
  co_await timer.async_wait(asio::use_awaitable);
}

/// The result of a call of with_deadline.
struct End {
  std::optional<int> result;
  std::string error;
};

template <typename Operation>
asio::awaitable<void> record(Operation operation, Deadline deadline, End& end) {
  try {
    auto made = operation();
    end.result = co_await with_deadline(std::move(made), deadline);
  } catch (const boost::system::system_error& error) {
    end.error = error.code() == asio::error::operation_aborted ? "cancelled" : "other";
  } catch (const std::exception& error) {
    end.error = error.what();
  }
}

template <typename Operation>
End run(Operation operation, Deadline deadline) {
  asio::io_context context;
  End end;
  asio::co_spawn(context, record(operation, deadline, end), asio::detached);
  context.run();
  return end;
}

}  // namespace

TEST_SUITE("with deadline") {
  TEST_CASE("with_deadline: an operation that ends in time returns its result") {
    CHECK(run(answer_at_once, Deadline::after(1h)).result == 42);
    CHECK(run(answer_at_once, Deadline::never()).result == 42);
  }

  TEST_CASE("with_deadline: an exception of the operation is rethrown at once") {
    const auto end = run(fail_at_once, Deadline::after(1h));
    CHECK(end.error == "refused");
    CHECK_FALSE(end.result);
  }

  TEST_CASE("with_deadline: an operation that exceeds the deadline is cancelled first") {
    bool was_cancelled = false;
    const auto end = run([&] { return wait_for_ever(was_cancelled); }, Deadline::after(1ms));
    CHECK(was_cancelled);
    CHECK(end.error.empty());
    CHECK_FALSE(end.result);
  }

  TEST_CASE("with_deadline: an operation that waits is cancelled if the deadline is already past") {
    bool was_cancelled = false;
    const auto end = run([&] { return wait_for_ever(was_cancelled); }, Deadline::after(-1s));
    CHECK(was_cancelled);
    CHECK_FALSE(end.result);
  }

  TEST_CASE("with_deadline: cancelling the caller cancels the operation") {
    asio::io_context context;
    asio::cancellation_signal cancel;
    bool was_cancelled = false;
    End end;
    const auto operation = [&] { return wait_for_ever(was_cancelled); };
    asio::co_spawn(context, record(operation, Deadline::after(1h), end),
                   asio::bind_cancellation_slot(cancel.slot(), asio::detached));
    context.poll();
    CHECK_FALSE(was_cancelled);
    cancel.emit(asio::cancellation_type::terminal);
    context.run();
    CHECK(was_cancelled);
    CHECK(end.error == "cancelled");
  }

  TEST_CASE("with_deadline: a caller that is already cancelled does not start the operation") {
    asio::io_context context;
    asio::cancellation_signal cancel;
    bool has_started = false;
    End end;
    const auto operation = [&]() -> asio::awaitable<int> {
      has_started = true;
      co_return 42;
    };
    const auto cancelled_first = [&]() -> asio::awaitable<void> {
      co_await asio::this_coro::throw_if_cancelled(false);
      cancel.emit(asio::cancellation_type::terminal);
      auto inner = record([&] { return operation(); }, Deadline::after(1h), end);
      co_await std::move(inner);
    };
    asio::co_spawn(context, cancelled_first(),
                   asio::bind_cancellation_slot(cancel.slot(), asio::detached));
    context.run();
    CHECK(end.error == "cancelled");
    CHECK_FALSE(has_started);
  }

  TEST_CASE("with_deadline: an operation without a result returns whether it ended in time") {
    asio::io_context context;
    bool in_time = false;
    bool too_late = true;
    const auto both = [&]() -> asio::awaitable<void> {
      auto first = wait_a_moment();
      in_time = co_await with_deadline(std::move(first), Deadline::after(1h));
      auto second = [&]() -> asio::awaitable<void> {
        bool ignored = false;
        auto waiting = wait_for_ever(ignored);
        co_await std::move(waiting);
      };
      auto late = second();
      too_late = co_await with_deadline(std::move(late), Deadline::after(1ms));
    };
    asio::co_spawn(context, both(), asio::detached);
    context.run();
    CHECK(in_time);
    CHECK_FALSE(too_late);
  }
}

}  // namespace with_deadline_test
