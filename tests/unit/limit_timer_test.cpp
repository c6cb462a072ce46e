#include "launcher/process/limit_timer.hpp"

#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <optional>

namespace limit_timer_test {

using ddprun::LimitTimer;
using namespace std::chrono_literals;

namespace {

auto in(LimitTimer::Clock::duration time) {
  return LimitTimer::Clock::now() + time;
}

}  // namespace

TEST_SUITE("limit timer") {
  TEST_CASE("it expires once") {
    boost::asio::io_context io;
    LimitTimer timer(io.get_executor());
    int expired = 0;
    timer.start(in(1ms), [&] { ++expired; });
    CHECK(timer.is_running());
    io.run();
    CHECK(expired == 1);
    CHECK_FALSE(timer.is_running());
  }

  TEST_CASE("started again it expires at the new time only") {
    boost::asio::io_context io;
    LimitTimer timer(io.get_executor());
    int first = 0, second = 0;
    timer.start(in(1ms), [&] { ++first; });
    timer.start(in(2ms), [&] { ++second; });
    io.run();
    CHECK(first == 0);
    CHECK(second == 1);
  }

  TEST_CASE("put off it expires later, even if it was due before it could be told") {
    boost::asio::io_context io;
    LimitTimer timer(io.get_executor());
    bool has_expired = false;
    timer.start(in(-1ms), [&] { has_expired = true; });
    timer.put_off(1h);
    io.run_for(20ms);
    CHECK_FALSE(has_expired);
    timer.put_off(-1h);
    io.restart();
    io.run();
    CHECK(has_expired);
  }

  TEST_CASE("one that does not run cannot be put off") {
    boost::asio::io_context io;
    LimitTimer timer(io.get_executor());
    bool has_expired = false;
    timer.put_off(1ms);
    timer.start(in(1ms), [&] { has_expired = true; });
    timer.cancel();
    timer.put_off(1ms);
    io.run();
    CHECK_FALSE(has_expired);
  }

  TEST_CASE("destroyed it does not expire") {
    boost::asio::io_context io;
    bool has_expired = false;
    {
      LimitTimer timer(io.get_executor());
      timer.start(in(-1ms), [&] { has_expired = true; });
    }
    io.run();
    CHECK_FALSE(has_expired);
  }

  TEST_CASE("destroyed when it is due it does not expire either") {
    boost::asio::io_context io;
    // Both are due at once; the first to be called destroys the other, whose turn would be next.
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
