// Signals that count as one request to stop.
#include "launcher/process/stop_requests.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <utility>
#include <vector>

namespace stop_requests_test {

using namespace ddprun;
using namespace std::chrono_literals;
using Meaning = StopRequests::Meaning;

TEST_SUITE("stop requests") {
  TEST_CASE("stop requests: a second signal kills workers after 2 s and a second SIGINT at once") {
    struct Signal {
      std::chrono::milliseconds at;
      int signal;
      Meaning expected;
    };
    const std::vector<std::vector<Signal>> table = {
        {{5ms, SIGTERM, Meaning::stop},
         {25ms, SIGTERM, Meaning::repeated},
         {2004ms, SIGTERM, Meaning::repeated},
         {2005ms, SIGTERM, Meaning::kill},
         {2006ms, SIGTERM, Meaning::kill}},
        {{0ms, SIGINT, Meaning::stop}, {1ms, SIGINT, Meaning::kill}},
        {{0ms, SIGINT, Meaning::stop}, {1ms, SIGTERM, Meaning::repeated}},
        {{0ms, SIGTERM, Meaning::stop},
         {1ms, SIGINT, Meaning::repeated},
         {2ms, SIGINT, Meaning::kill}},
        {{0ms, SIGHUP, Meaning::stop}, {1ms, SIGTERM, Meaning::repeated}},
    };
    for (const auto& row : table) {
      StopRequests requests;
      for (const auto& [at, signal, expected] : row) {
        CAPTURE(at.count());
        CHECK(requests.take(signal, StopRequests::Clock::time_point(at)) == expected);
      }
    }
    StopRequests longer(3s);
    CHECK(longer.take(SIGTERM, StopRequests::Clock::time_point(0s)) == Meaning::stop);
    CHECK(longer.take(SIGTERM, StopRequests::Clock::time_point(2s)) == Meaning::repeated);
    CHECK(longer.take(SIGTERM, StopRequests::Clock::time_point(3s)) == Meaning::kill);
  }
}

}  // namespace stop_requests_test
