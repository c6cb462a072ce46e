#include "rendezvous/membership/restart_budget.hpp"

#include <doctest/doctest.h>

namespace restart_budget_test {

using namespace ddprun::membership;
using namespace std::chrono_literals;

namespace {

constexpr std::chrono::steady_clock::time_point kStart{};

BudgetDecision spend(const RestartHistory& history, std::chrono::duration<double> ran,
                     const RestartSettings& settings,
                     std::chrono::steady_clock::time_point now = kStart) {
  return spend_restart(history, "rank 0 failed", ran, now, settings);
}

}  // namespace

TEST_SUITE("restart budget") {
  TEST_CASE("restart budget: a failure is restarted immediately while restarts are left") {
    const RestartSettings settings{.max_restarts = 2};
    for (const int used : {0, 1}) {
      const auto decision = spend({.restarts = used}, 60s, settings);
      CHECK(decision.may_restart);
      CHECK(decision.delay == 0ms);
      CHECK(decision.history.restarts == used + 1);
    }
    const auto last = spend({.restarts = 2}, 60s, settings);
    CHECK_FALSE(last.may_restart);
    CHECK(last.reason == "rank 0 failed; all 2 restarts are used");
  }

  TEST_CASE("restart budget: only repeated fast failures cause a growing and bounded delay") {
    const RestartSettings settings{.max_restarts = 100};
    const std::chrono::milliseconds expected[] = {0ms, 0ms, 500ms, 1s, 2s, 4s, 8s, 16s, 30s, 30s};
    RestartHistory history;
    for (const auto delay : expected) {
      const auto decision = spend(history, 100ms, settings);
      CHECK(decision.delay == delay);
      history = decision.history;
    }
    const auto slow = spend(history, 60s, settings);
    CHECK(slow.history.fast_failures == 0);
    CHECK(slow.delay == 0ms);
  }

  TEST_CASE("restart budget: restarts older than the window do not count") {
    const RestartSettings settings{.max_restarts = 1, .window = 10s};
    const auto first = spend({}, 60s, settings);
    CHECK(first.may_restart);
    CHECK_FALSE(spend(first.history, 60s, settings, kStart + 9s).may_restart);
    CHECK(spend(first.history, 60s, settings, kStart + 10s).may_restart);
    CHECK(restarts_left(1, {.max_restarts = 3}) == 2);
    CHECK_FALSE(restarts_left(1, settings).has_value());
  }

  TEST_CASE("restart budget: the delay does not overflow after many fast failures") {
    const RestartHistory history{.restarts = 5, .fast_failures = 1'000'000};
    CHECK(spend(history, 100ms, {.max_restarts = 10}).delay == 30s);
  }
}

}  // namespace restart_budget_test
