// The users that processes of a run have become.
#include "launcher/agent/store_users.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <vector>

namespace worker_users_test {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST_SUITE("worker users") {
  TEST_CASE("a search finds the users of live processes, and no users of earlier ones") {
    std::vector<uid_t> now = {7};
    ddprun::WorkerUsers users([&] { return now; });
    CHECK(users.has(7));
    now = {8};
    CHECK(users.has(7));  // no search is needed
    while (!users.has(8)) {
    }
    CHECK_FALSE(users.has(7));
  }

  TEST_CASE("strangers cause searches for a twentieth of the time at most") {
    Clock::duration searching{0};
    Clock::duration last{0};
    ddprun::WorkerUsers users([&] {
      const auto start = Clock::now();
      while (Clock::now() < start + 1ms) {
      }
      last = Clock::now() - start;
      searching += last;
      return std::vector<uid_t>();
    });
    const auto start = Clock::now();
    while (Clock::now() < start + 100ms) CHECK_FALSE(users.has(7));
    CHECK(searching > last);
    // The pause after the last search has not passed.
    CHECK(searching - last <= (Clock::now() - start) / 20);
  }
}

}  // namespace worker_users_test
