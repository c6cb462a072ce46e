// Users to which processes of a run have changed.
#include "launcher/agent/store_users.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <vector>

namespace worker_users_test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST_SUITE("worker users") {
  TEST_CASE("worker users: a search finds users of live processes only") {
    std::vector<uid_t> live = {7};
    Clock::time_point now{};
    ddprun::WorkerUsers users([&] { return live; }, [&] { return now += 1ms; });
    CHECK(users.has(7));
    live = {8};
    CHECK(users.has(7));  // no search is needed
    CHECK(users.has(8));  // at once after the search for 7
    CHECK_FALSE(users.has(7));
  }

  TEST_CASE("worker users: searches for unknown users take at most a twentieth of the time") {
    Clock::time_point now{};
    int searches = 0;
    ddprun::WorkerUsers users(
        [&] {
          now += 5ms;
          ++searches;
          return std::vector<uid_t>();
        },
        [&] { return now; });
    for (const auto start = now; now < start + 10s; now += 1ms) CHECK_FALSE(users.has(7));
    CHECK(searches >= 100);
    CHECK(searches <= 111);  // a second's share in advance
  }
}

}  // namespace worker_users_test
