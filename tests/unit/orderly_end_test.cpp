// Rounds that end without a failure.
#include "rendezvous/membership/coordination.hpp"
#include "tests/support/coordination_driver.hpp"

#include <doctest/doctest.h>

#include <string>

namespace orderly_end_test {

using namespace ddprun::membership;
using ddprun::test::CoordinationDriver;
using namespace std::chrono_literals;

namespace {

/// Three nodes with workers in round 0, and a fourth one that joins then.
CoordinationDriver newcomer_at(int now) {
  Settings settings{.run_id = "run", .nodes_min = 1, .nodes_max = 4};
  settings.restarts.max_restarts = 1;
  settings.last_call_timeout = 2s;
  CoordinationDriver driver(settings);
  for (const NodeId node : {1, 2, 3}) driver.join(node, "node" + std::to_string(node), 0);
  driver.pass(2000);
  driver.join(4, "node4", now);
  REQUIRE(driver.sent_to<StopWorkers>(1).size() == 1);
  CHECK(driver.sent_to<StopWorkers>(1)[0].is_orderly);
  return driver;
}

}  // namespace

TEST_SUITE("orderly end") {
  TEST_CASE("orderly end: a loss or failure turns an orderly stop into an urgent one") {
    for (const bool is_loss : {true, false}) {
      CAPTURE(is_loss);
      auto driver = newcomer_at(2100);
      if (is_loss) driver.gone(3, 2200);
      if (!is_loss) driver.send(3, WorkersFailing{0, "rank 2 is dying"}, 2200);
      REQUIRE(driver.sent_to<StopWorkers>(1).size() == 1);
      CHECK_FALSE(driver.sent_to<StopWorkers>(1)[0].is_orderly);
      driver.gone(2, 2300);
      CHECK(driver.sent_to<StopWorkers>(1).empty());
    }
  }

  TEST_CASE("orderly end: failures of workers stopped for a new node use no restart") {
    auto driver = newcomer_at(2100);
    driver.send(2, WorkersFailing{0, "rank 1 was killed by SIGABRT", true}, 2200);
    CHECK_FALSE(driver.sent_to<StopWorkers>(1)[0].is_orderly);
    for (const NodeId node : {1, 2, 3}) driver.send(node, WorkersEnded{.round = 0}, 2300);
    REQUIRE(driver.sent_to<RoundFormed>(4).size() == 1);
    CHECK(driver.sent_to<RoundFormed>(4)[0].restarts_used == 0);
    CHECK(driver.sent_to<NextRound>(1)[0].reason ==
          "node4 has joined; meanwhile rank 1 was killed by SIGABRT");
  }

  TEST_CASE("orderly end: a failure before the stop for a new node uses a restart") {
    auto driver = newcomer_at(2100);
    driver.send(2, WorkersFailing{0, "rank 1 was killed by SIGABRT", false}, 2101);
    const Failure failure{.ran_seconds = 60, .description = "rank 1 was killed by SIGABRT"};
    driver.send(2, WorkersEnded{.round = 0, .failures = {failure}}, 2200);
    for (const NodeId node : {1, 3}) driver.send(node, WorkersEnded{.round = 0}, 2300);
    CHECK(driver.coordination().restarts_used() == 1);
  }

  TEST_CASE("orderly end: a failure caused by stopped peers uses no restart") {
    auto driver = newcomer_at(2100);
    driver.send(2, WorkersFailing{0, "rank 1 lost its peers", false}, 2101);
    const Failure failure{.is_victim = true, .description = "rank 1 lost its peers"};
    driver.send(2, WorkersEnded{.round = 0, .failures = {failure}}, 2200);
    for (const NodeId node : {1, 3}) driver.send(node, WorkersEnded{.round = 0}, 2300);
    CHECK(driver.coordination().restarts_used() == 0);
  }

  TEST_CASE("orderly end: failures of peers of a leaving node use no restart") {
    auto driver = newcomer_at(2100);
    driver.send(3, Leave{"was asked to stop"}, 2110);
    driver.send(2, WorkersFailing{0, "rank 1 failed", false}, 2120);
    for (const NodeId node : {1, 2, 3}) driver.send(node, WorkersEnded{.round = 0}, 2300);
    REQUIRE(driver.sent_to<RoundFormed>(4).size() == 1);
    CHECK(driver.sent_to<RoundFormed>(4)[0].restarts_used == 0);
  }

  TEST_CASE("orderly end: a run whose workers all succeed despite a pending stop succeeds") {
    for (const bool is_leave : {false, true}) {
      CAPTURE(is_leave);
      auto driver = newcomer_at(2100);
      if (is_leave) driver.host_leaves("node1 leaves", 2110);
      for (const NodeId node : {1, 2, 3}) {
        CHECK(driver.sent_to<Finish>(4).empty());
        driver.send(node, WorkersEnded{.round = 0, .have_succeeded = true}, 2200);
      }
      REQUIRE(driver.sent_to<Finish>(4).size() == 1);
      CHECK(driver.sent_to<Finish>(4) == driver.sent_to<Finish>(1));
      CHECK(driver.sent_to<Finish>(4)[0].outcome.result == RunResult::succeeded);
      CHECK(driver.sent_to<RoundFormed>(4).empty());
    }
  }

  TEST_CASE("orderly end: exit code 0 after a stop or loss does not end the run with success") {
    for (const bool is_lost : {false, true}) {
      CAPTURE(is_lost);
      auto driver = newcomer_at(2100);
      for (const NodeId node : {1, 2}) {
        driver.send(node, WorkersEnded{.round = 0, .have_succeeded = true}, 2200);
      }
      const WorkersEnded asked{.round = 0, .have_succeeded = true, .were_asked = true};
      if (is_lost) driver.gone(3, 2300);
      if (!is_lost) driver.send(3, asked, 2300);
      REQUIRE(driver.sent_to<RoundFormed>(4).size() == 1);
      CHECK(driver.sent_to<RoundFormed>(4)[0].restarts_used == 0);
    }
  }

  TEST_CASE("orderly end: only the new node leaves if it cannot execute its workers") {
    auto driver = newcomer_at(2100);
    for (const NodeId node : {1, 2, 3}) driver.send(node, WorkersEnded{.round = 0}, 2200);
    REQUIRE(driver.sent_to<RoundFormed>(4).size() == 1);
    const WorkersEnded unable{.round = 1, .not_started = "node4: /opt/python: no such file"};
    driver.send(4, unable, 2300);
    REQUIRE(driver.sent_to<StopWorkers>(1).size() == 1);
    CHECK(driver.sent_to<StopWorkers>(1)[0].reason == unable.not_started);
    for (const NodeId node : {1, 2, 3}) driver.send(node, WorkersEnded{.round = 1}, 2400);
    REQUIRE(driver.sent_to<Refused>(4).size() == 1);
    CHECK(driver.sent_to<Refused>(4)[0].reason ==
          "node4: /opt/python: no such file; the other nodes continue without it");
    CHECK(driver.has<CloseConnection>());
    REQUIRE(driver.sent_to<RoundFormed>(1).size() == 1);
    CHECK(driver.sent_to<RoundFormed>(1)[0].nodes.size() == 3);
    CHECK(driver.sent_to<RoundFormed>(1)[0].restarts_used == 0);
  }

  TEST_CASE("orderly end: the run ends if the host or too many nodes cannot execute workers") {
    for (const bool is_host : {false, true}) {
      CAPTURE(is_host);
      CoordinationDriver driver({.run_id = "run", .nodes_min = is_host ? 1 : 2, .nodes_max = 2});
      auto join = driver.join_of("node1");
      join.is_host = is_host;
      driver.send(1, join, 0);
      driver.join(2, "node2", 0);
      driver.gone(2, 100);
      driver.join(3, "node3", 150);
      driver.send(1, WorkersEnded{.round = 0}, 200);
      REQUIRE(driver.sent_to<RoundFormed>(3).size() == 1);
      driver.send(1, WorkersEnded{.round = 1, .not_started = "no such file"}, 300);
      driver.send(3, WorkersEnded{.round = 1}, 400);
      REQUIRE(driver.coordination().outcome());
      CHECK(driver.coordination().outcome()->result == RunResult::not_started);
    }
  }
}

}  // namespace orderly_end_test
