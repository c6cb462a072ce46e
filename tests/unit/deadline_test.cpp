#include <ddprun/deadline.hpp>

#include <doctest/doctest.h>

namespace deadline_test {

using ddprun::Deadline;
using namespace std::chrono_literals;

TEST_SUITE("deadline") {
  TEST_CASE("deadline: a past deadline has passed and has no remaining time") {
    const auto deadline = Deadline::after(-1s);
    CHECK(deadline.passed());
    CHECK(deadline.remaining() == Deadline::Duration::zero());
    CHECK(deadline.remaining_poll_milliseconds() == 0);
  }

  TEST_CASE("deadline: an unlimited deadline never passes and polls forever") {
    const auto deadline = Deadline::never();
    CHECK_FALSE(deadline.passed());
    CHECK(deadline.remaining_poll_milliseconds() == -1);
    CHECK(deadline.remaining() == Deadline::Duration::max());
  }

  TEST_CASE("deadline: the longest duration does not overflow") {
    CHECK_FALSE(Deadline::after(Deadline::Duration::max()).passed());
  }

  TEST_CASE("deadline: the remaining time is at most the limit") {
    const auto deadline = Deadline::after(1h);
    CHECK(deadline.remaining() <= 1h);
    CHECK(deadline.remaining() > 59min);
    CHECK(deadline.allowed() == 1h);
    CHECK(deadline.describe().find("(3600.0 s allowed)") != std::string::npos);
  }

  TEST_CASE("deadline: a later deadline keeps its start, and an unlimited one has no later one") {
    const auto deadline = Deadline::after(1h);
    CHECK(deadline.later(1min).time() == deadline.time() + 1min);
    CHECK(deadline.later(1min).allowed() == 61min);
    CHECK(Deadline::never().later(1min).is_never());
    CHECK_FALSE(Deadline::after(1h).later(Deadline::Duration::max()).passed());
  }

  TEST_CASE("deadline: poll timeouts are rounded up so that a poll does not end early") {
    CHECK(Deadline::after(500us).remaining_poll_milliseconds() <= 1);
    CHECK(Deadline::after(1h).remaining_poll_milliseconds() > 3'599'000);
  }
}

}  // namespace deadline_test
