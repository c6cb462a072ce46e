// The users that processes of a run have become.
#include "launcher/agent/store_users.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <vector>

namespace worker_users_test {

using namespace std::chrono_literals;
using Clock = ddprun::WorkerUsers::Clock;

namespace {

/// Searches that take a millisecond of a clock of their own.
struct Searches {
  Clock::time_point now{1h};
  std::vector<uid_t> users{};
  int count = 0;
  ddprun::WorkerUsers found{[this] {
                              now += 1ms;
                              ++count;
                              return users;
                            },
                            [this] { return now; }};
};

}  // namespace

TEST_SUITE("worker users") {
  TEST_CASE("a search finds the users of live processes, and no users of earlier ones") {
    Searches searches{.users = {7}};
    CHECK(searches.found.has(7));
    searches.users = {8};
    searches.now += 1s;
    CHECK(searches.found.has(7));  // no search is needed
    CHECK(searches.found.has(8));
    CHECK_FALSE(searches.found.has(7));
  }

  TEST_CASE("strangers cause searches for a twentieth of the time at most") {
    Searches searches;
    CHECK_FALSE(searches.found.has(7));
    searches.users = {7};
    searches.now += 19ms - 1ns;
    CHECK_FALSE(searches.found.has(7));
    CHECK(searches.count == 1);
    searches.now += 1ns;
    CHECK(searches.found.has(7));
    CHECK(searches.count == 2);
  }
}

}  // namespace worker_users_test
