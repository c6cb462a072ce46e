// Nodes that reconnect before the coordinator detects the end of their former connection.
#include "rendezvous/membership/coordination.hpp"
#include "tests/support/coordination_driver.hpp"

#include <doctest/doctest.h>

#include <string>

namespace node_return_test {

using namespace ddprun::membership;
using ddprun::test::CoordinationDriver;
using namespace std::chrono_literals;

namespace {

/// A new agent of a node that requests rank 0.
Join ranked(const CoordinationDriver& driver, const std::string& name) {
  auto join = driver.join_of(name);
  join.node_rank = 0;
  return join;
}

}  // namespace

TEST_SUITE("node return") {
  TEST_CASE("node return: a new connection of a node replaces the former one") {
    CoordinationDriver driver({.run_id = "run", .nodes_min = 2, .nodes_max = 2});
    Join join = driver.join_of("a");
    join.node_rank = 0;
    driver.send(1, join, 0);
    Join other = driver.join_of("b");
    other.node_rank = 1;
    driver.send(2, other, 0);
    REQUIRE(driver.sent_to<RoundFormed>(2).size() == 1);
    other.last_round = 0;
    driver.send(3, other, 2600);
    CHECK(driver.sent_to<Refused>(3).empty());
    CHECK(driver.has<CloseConnection>());
    CHECK(driver.sent_to<StopWorkers>(1)[0].reason == "b is lost: it has reconnected");
    driver.send(1, WorkersEnded{.round = 0}, 2700);
    REQUIRE(driver.sent_to<RoundFormed>(3).size() == 1);
    CHECK(driver.sent_to<RoundFormed>(3)[0].node_rank == 1);
  }

  TEST_CASE("node return: an agent that reconnects before the first round joins at once") {
    CoordinationDriver driver({.run_id = "run", .nodes_min = 2, .nodes_max = 2});
    const Join join = ranked(driver, "a");
    driver.send(1, join, 0);
    driver.send(2, join, 10);
    CHECK(driver.sent_to<Refused>(2).empty());
    CHECK(driver.sent_to<Welcome>(2).size() == 1);
    CHECK(driver.has<CloseConnection>());
  }

  TEST_CASE("node return: a late join from an older connection is ignored") {
    CoordinationDriver driver({.run_id = "run", .nodes_min = 2, .nodes_max = 2});
    auto join = driver.join_of("a");
    join.connection = 2;
    driver.send(1, join, 0);
    join.connection = 1;
    driver.send(2, join, 10);
    CHECK(driver.sent_to<Welcome>(2).empty());
    CHECK(driver.has<CloseConnection>());
    driver.join(3, "b", 20);
    CHECK(driver.sent_to<RoundFormed>(1).size() == 1);
  }

  TEST_CASE("node return: another node cannot take a rank in use") {
    CoordinationDriver driver({.run_id = "run", .nodes_min = 2, .nodes_max = 2});
    driver.send(1, ranked(driver, "a"), 0);
    driver.send(2, ranked(driver, "b"), 200);
    REQUIRE(driver.sent_to<Refused>(2).size() == 1);
    CHECK(driver.sent_to<Refused>(2)[0].reason == "--node_rank=0 is taken by a");
  }

  TEST_CASE("node return: a restarted agent gets its rank when its old agent is lost") {
    for (const bool is_silent : {false, true}) {
      CAPTURE(is_silent);
      CoordinationDriver driver({.run_id = "run", .nodes_min = 2, .nodes_max = 2});
      driver.send(1, ranked(driver, "a"), 0);
      // The last message of the former agent may be late.
      const auto join = ranked(driver, "a");
      driver.send(2, join, 1000);
      CHECK(driver.sent_to<Waiting>(2).size() == 1);
      driver.beat({1}, 1400);
      CHECK(driver.sent_to<Refused>(2).empty());
      CHECK(driver.sent_to<Welcome>(2).empty());
      if (!is_silent) driver.gone(1, 1499);
      if (is_silent) {
        driver.pass(4400);
        CHECK(driver.sent_to<Welcome>(2).empty());  // it would count its lease from 1000
        CHECK(driver.has<CloseConnection>());
        driver.send(2, join, 4500);
      }
      CHECK(driver.sent_to<Welcome>(2).size() == 1);
      driver.join(3, "b", 4600);
      REQUIRE(driver.sent_to<RoundFormed>(2).size() == (is_silent ? 1U : 0U));
    }
  }

  TEST_CASE("node return: any node waits for the rank of a leaving node") {
    for (const auto* name : {"a", "b"}) {
      CAPTURE(name);
      CoordinationDriver driver({.run_id = "run", .nodes_min = 1, .nodes_max = 1});
      driver.send(1, ranked(driver, "a"), 0);
      driver.send(1, Leave{"was asked to stop by SIGTERM", 15}, 100);
      const auto join = ranked(driver, name);
      driver.send(2, join, 200);
      REQUIRE(driver.sent_to<Waiting>(2).size() == 1);
      CHECK(driver.sent_to<Waiting>(2)[0].text ==
            "--node_rank=0 is taken by a, which is leaving; waiting until it has left");
      for (int now = 500; now < 29'000; now += 500) {
        driver.beat({1}, now);
        REQUIRE(driver.sent_to<Refused>(2).empty());
      }
      driver.send(1, WorkersEnded{.round = 0, .were_asked = true}, 29'000);
      driver.gone(1, 29'100);
      CHECK(driver.has<CloseConnection>());
      driver.send(3, join, 29'200);
      CHECK(driver.sent_to<RoundFormed>(3).size() == 1);
    }
  }

  TEST_CASE("node return: a duplicate agent is notified before it is rejected") {
    CoordinationDriver driver({.run_id = "run", .nodes_min = 2, .nodes_max = 2, .lease = 30s});
    driver.send(1, ranked(driver, "a"), 0);
    driver.send(2, ranked(driver, "a"), 1000);
    int last_notice = 1000;
    bool is_refused = false;
    for (int now = 2000; now <= 30'000 && !is_refused; now += 1000) {
      if (now % 5000 == 0) driver.beat({1}, now);
      if (now % 5000 != 0) driver.pass(now);
      CHECK(driver.coordination().next_wake() > CoordinationDriver::at(now));
      if (!driver.sent_to<Waiting>(2).empty()) last_notice = now;
      is_refused = !driver.sent_to<Refused>(2).empty();
      CHECK(now - last_notice < 10'000);
    }
    CHECK(is_refused);
  }

  TEST_CASE("node return: a duplicate agent is rejected if the first agent is alive") {
    CoordinationDriver driver({.run_id = "run", .nodes_min = 2, .nodes_max = 2});
    driver.send(1, ranked(driver, "a"), 0);
    driver.send(2, ranked(driver, "a"), 1000);
    driver.beat({1}, 1500);
    driver.beat({1}, 2000);
    CHECK(driver.sent_to<Refused>(2).empty());
    driver.beat({1}, 2500);
    REQUIRE(driver.sent_to<Refused>(2).size() == 1);
    CHECK(driver.sent_to<Refused>(2)[0].reason ==
          "--node_rank=0 is taken by another agent named a, which is alive; give each node "
          "its own --node_rank");
    CHECK(driver.has<CloseConnection>());
  }

  TEST_CASE("node return: an agent that waits for a rank gets the outcome when the run ends") {
    CoordinationDriver driver({.run_id = "run", .nodes_min = 1, .nodes_max = 1});
    driver.send(1, ranked(driver, "a"), 0);
    driver.send(2, ranked(driver, "a"), 100);
    driver.send(3, ranked(driver, "a"), 100);
    driver.gone(2, 200);
    driver.send(1, WorkersEnded{.round = 0, .have_succeeded = true}, 300);
    driver.gone(1, 400);
    CHECK(driver.sent_to<Welcome>(2).empty());
    CHECK(driver.sent_to<Refused>(2).empty());
    REQUIRE(driver.sent_to<Refused>(3).size() == 1);
    CHECK(driver.sent_to<Refused>(3)[0].reason == "the run has ended: all workers succeeded");
    CHECK(driver.coordination().is_over());
  }
}

}  // namespace node_return_test
