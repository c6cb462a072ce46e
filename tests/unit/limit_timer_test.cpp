#include "launcher/process/limit_timer.hpp"

#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <optional>

namespace limit_timer_test {

using ddprun::LimitTimer;
using ddprun::RunClock;
using namespace std::chrono_literals;

namespace {

auto in(RunClock::duration time) {
  return RunClock::now() + time;
}

}  // namespace

TEST_SUITE("limit timer") {
  TEST_CASE("limit timer: the handler is called once") {
    boost::asio::io_context io;
    LimitTimer timer(io.get_executor());
    int expired = 0;
    timer.start(in(1ms), [&] { ++expired; });
    CHECK(timer.is_running());
    io.run();
    CHECK(expired == 1);
    CHECK_FALSE(timer.is_running());
  }

  TEST_CASE("limit timer: a restarted timer expires at the new time only") {
    boost::asio::io_context io;
    LimitTimer timer(io.get_executor());
    int first = 0, second = 0;
    timer.start(in(1ms), [&] { ++first; });
    timer.start(in(2ms), [&] { ++second; });
    io.run();
    CHECK(first == 0);
    CHECK(second == 1);
  }

  TEST_CASE("limit timer: the time of a suspension does not count towards the limit") {
    boost::asio::io_context io;
    LimitTimer timer(io.get_executor());
    bool has_expired = false;
    timer.start(in(-1ms), [&] { has_expired = true; });
    RunClock::add_suspension(1min);
    io.poll();
    CHECK_FALSE(has_expired);
    CHECK(timer.is_running());
    timer.start(in(-1ms), [&] { has_expired = true; });
    RunClock::add_suspension(5ms);
    io.restart();
    io.run();
    CHECK(has_expired);
  }

  TEST_CASE("limit timer: a suspension delays even a timer that is already due") {
    boost::asio::io_context io;
    // Both handlers are due at once; the first one suspends the run before the second one is
    // called.
    LimitTimer first(io.get_executor()), second(io.get_executor());
    int expired = 0;
    const auto suspend = [&] {
      ++expired;
      RunClock::add_suspension(1min);
    };
    first.start(in(-1ms), suspend);
    second.start(in(-1ms), suspend);
    io.poll();
    CHECK(expired == 1);
    CHECK(first.is_running() != second.is_running());
  }

  TEST_CASE("limit timer: a cancelled timer does not expire") {
    boost::asio::io_context io;
    LimitTimer timer(io.get_executor());
    bool has_expired = false;
    timer.start(in(1ms), [&] { has_expired = true; });
    timer.cancel();
    io.run();
    CHECK_FALSE(has_expired);
  }

  TEST_CASE("limit timer: a destroyed timer does not expire") {
    boost::asio::io_context io;
    bool has_expired = false;
    {
      LimitTimer timer(io.get_executor());
      timer.start(in(-1ms), [&] { has_expired = true; });
    }
    io.run();
    CHECK_FALSE(has_expired);
  }

  TEST_CASE("limit timer: a timer destroyed while it is due does not expire") {
    boost::asio::io_context io;
    // Both are due at once; the first handler destroys the other timer.
    std::optional<LimitTimer> timers[2];
    int expired = 0;
    for (int i = 0; i < 2; ++i) {
      timers[i].emplace(io.get_executor());
      timers[i]->start(in(-1ms), [&timers, &expired, i] {
        ++expired;
        timers[1 - i].reset();
      });
    }
    io.run();
    CHECK(expired == 1);
  }
}

}  // namespace limit_timer_test
