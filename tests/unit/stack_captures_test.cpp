// Order of stack captures, with captures that last until the test ends them.
#include "launcher/process/stack_captures.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace stack_captures_test {

using namespace ddprun;

namespace {

namespace asio = boost::asio;
using Names = std::vector<std::string>;

constexpr auto kLimit = std::chrono::seconds(5);

/// Captures record their begin, their successors, and the end of all.
struct Bench {
  StackCapture named(const std::string& name) {
    return {.moment = {.reason = name},
            .take = [this](StackMoment moment, Deadline) { return take(std::move(moment)); },
            .then = nullptr};
  }

  StackCapture last(const std::string& name) {
    auto capture = named(name);
    capture.then = [this, name] { happened.push_back("after " + name); };
    return capture;
  }

  asio::awaitable<void> take(StackMoment moment) {
    happened.push_back(moment.reason);
    if (moment.reason == "broken") throw std::runtime_error("no memory");
    boost::system::error_code ignored;
    co_await end.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }

  void run() {
    io.restart();
    io.poll();
  }

  void end_capture() {
    end.cancel();
    run();
  }

  Names happened;
  Names log;
  asio::io_context io;
  asio::steady_timer end{io, asio::steady_timer::time_point::max()};
  StackCaptures captures{io.get_executor(),
                         kLimit,
                         {.interrupt =
                              [this] {
                                happened.emplace_back("interrupt");
                                end.cancel();
                              },
                          .on_idle = [this] { happened.emplace_back("idle"); }},
                         [this](LogLevel, std::string_view line) { log.emplace_back(line); }};
};

}  // namespace

TEST_SUITE("stack captures") {
  TEST_CASE("stack captures: several requests during a capture cause one further capture") {
    Bench bench;
    for (int i = 0; i < 100; ++i) bench.captures.take(bench.named(std::to_string(i)));
    bench.run();
    CHECK(bench.happened == Names{"0"});
    bench.end_capture();
    CHECK(bench.happened == Names{"0", "1"});
    CHECK(bench.captures.is_busy());
    bench.end_capture();
    CHECK(bench.happened == Names{"0", "1", "idle"});
    CHECK_FALSE(bench.captures.is_busy());
  }

  TEST_CASE("stack captures: the last capture interrupts the current one and drops requests") {
    Bench bench;
    bench.captures.take(bench.named("first"));
    bench.captures.take(bench.named("waits"));
    bench.run();
    bench.captures.take_last(bench.last("last"));
    bench.run();
    CHECK(bench.happened == Names{"first", "interrupt", "last"});
    bench.end_capture();
    CHECK(bench.happened == Names{"first", "interrupt", "last", "after last", "idle"});
  }

  TEST_CASE("stack captures: the time limit of the last capture starts at its request") {
    Bench bench;
    std::vector<Deadline> deadlines;
    auto capture = bench.last("last");
    capture.take = [&](StackMoment moment, Deadline deadline) {
      deadlines.push_back(deadline);
      return bench.take(std::move(moment));
    };
    bench.captures.take(bench.named("first"));
    bench.run();
    const auto latest = Deadline::Clock::now() + kLimit;
    bench.captures.take_last(capture);
    const auto asked = Deadline::Clock::now() + kLimit;
    bench.run();
    REQUIRE(deadlines.size() == 1);
    CHECK(deadlines[0].time() >= latest);
    CHECK(deadlines[0].time() <= asked);
    bench.end_capture();
  }

  TEST_CASE("stack captures: the next capture starts after a failed one") {
    Bench bench;
    bench.captures.take_last(bench.last("broken"));
    bench.captures.take(bench.named("next"));
    bench.run();
    CHECK(bench.happened == Names{"broken", "after broken", "next"});
    CHECK(bench.log == Names{"no stacks: no memory"});
    bench.end_capture();
    CHECK(bench.happened.back() == "idle");
  }

  TEST_CASE("stack captures: cleared requests are not started") {
    Bench bench;
    bench.captures.take(bench.named("first"));
    bench.captures.take(bench.named("waits"));
    bench.captures.clear();
    bench.run();
    bench.end_capture();
    CHECK(bench.happened == Names{"first", "idle"});
  }
}

}  // namespace stack_captures_test
