#include "rendezvous/store/long_turns.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

namespace long_turns_test {

namespace asio = boost::asio;
using ddprun::LongTurns;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

namespace {

struct Bench {
  asio::io_context io{1};
  LongTurns turns{io.get_executor()};
  std::string done;  ///< a letter for each turn, a dot for each piece of short work

  void start(char letter, int count, Clock::duration work = {}) {
    asio::co_spawn(io, take_turns(*this, letter, count, work), asio::detached);
  }

  static asio::awaitable<void> take_turns(Bench& bench, char letter, int count,
                                          Clock::duration work) {
    for (int i = 0; i < count; ++i) {
      auto waiting = bench.turns.begin();
      const auto turn = co_await std::move(waiting);
      bench.do_work(letter, work);
    }
  }

  static asio::awaitable<void> rest_once(Bench& bench, char letter, Clock::duration work) {
    auto waiting = bench.turns.begin();
    auto turn = co_await std::move(waiting);
    bench.do_work(letter, work);
    co_await turn.rest();
    bench.do_work(letter, {});
  }

  void do_work(char letter, Clock::duration work) {
    done += letter;
    asio::post(io, [this] { done += '.'; });
    const auto end = Clock::now() + work;
    while (Clock::now() < end) continue;
  }
};

}  // namespace

TEST_SUITE("long turns") {
  TEST_CASE("LongTurns: long turns run one at a time with short work in between") {
    Bench bench;
    for (const char letter : {'a', 'b', 'c'}) bench.start(letter, 2);
    bench.io.run();
    CHECK(bench.done == "a.a.b.c.b.c.");  // a asked again before b did
  }

  TEST_CASE("LongTurns: each long turn is followed by a rest of equal length") {
    Bench bench;
    bench.start('a', 2, 10ms);
    bench.start('b', 2, 10ms);
    const auto begin = Clock::now();
    bench.io.run();
    CHECK(bench.done.size() == 8);
    CHECK(Clock::now() - begin >= 70ms);
  }

  TEST_CASE("LongTurns: short work but no other turn runs during a rest") {
    Bench bench;
    asio::co_spawn(bench.io, Bench::rest_once(bench, 'r', 10ms), asio::detached);
    bench.start('a', 1);
    const auto begin = Clock::now();
    bench.io.run();
    CHECK(bench.done == "r.r.a.");
    CHECK(Clock::now() - begin >= 20ms);
  }

  TEST_CASE("LongTurns: destroying the loop frees a resting coroutine") {
    Bench bench;
    asio::co_spawn(bench.io, Bench::rest_once(bench, 'r', 10ms), asio::detached);
    bench.start('a', 1);
    while (bench.done.empty()) bench.io.run_one();
    CHECK(bench.done == "r");
  }

  TEST_CASE("LongTurns: a turn ends when an exception leaves it") {
    Bench bench;
    asio::co_spawn(
        bench.io,
        [](LongTurns& turns) -> asio::awaitable<void> {
          auto waiting = turns.begin();
          const auto turn = co_await std::move(waiting);
          throw 1;
        }(bench.turns),
        asio::detached);
    bench.start('a', 1);
    bench.io.run();
    CHECK(bench.done == "a.");
  }

  TEST_CASE("LongTurns: destroying the loop frees coroutines that wait for a turn") {
    Bench bench;
    for (int i = 0; i < 3; ++i) bench.start('a', 1);
    while (bench.done.empty()) bench.io.run_one();
    CHECK(bench.done == "a");
  }
}

}  // namespace long_turns_test
