// Rounds that end without a failure.
#include "rendezvous/membership/coordination.hpp"
#include "tests/support/membership_talk.hpp"

#include <doctest/doctest.h>

#include <string>

namespace orderly_end_test {

using namespace ddprun::membership;
using ddprun::test::Talk;
using namespace std::chrono_literals;

namespace {

/// Three nodes with workers in round 0, and a fourth one that joins then.
Talk newcomer_at(int now) {
  Settings settings{.run_id = "run", .nodes_min = 1, .nodes_max = 4};
  settings.restarts.max_restarts = 1;
  settings.last_call_timeout = 2s;
  Talk talk(settings);
  for (const NodeId node : {1, 2, 3}) talk.join(node, "node" + std::to_string(node), 0);
  talk.pass(2000);
  talk.join(4, "node4", now);
  REQUIRE(talk.told<StopWorkers>(1).size() == 1);
  CHECK(talk.told<StopWorkers>(1)[0].is_orderly);
  return talk;
}

}  // namespace

TEST_SUITE("orderly end") {
  TEST_CASE("orderly end: a loss or failure makes an orderly end urgent once") {
    for (const bool is_loss : {true, false}) {
      CAPTURE(is_loss);
      auto talk = newcomer_at(2100);
      if (is_loss) talk.gone(3, 2200);
      if (!is_loss) talk.send(3, WorkersFailing{0, "rank 2 is dying"}, 2200);
      REQUIRE(talk.told<StopWorkers>(1).size() == 1);
      CHECK_FALSE(talk.told<StopWorkers>(1)[0].is_orderly);
      talk.gone(2, 2300);
      CHECK(talk.told<StopWorkers>(1).empty());
    }
  }

  TEST_CASE("orderly end: failures of workers stopped for a new node use no restart") {
    auto talk = newcomer_at(2100);
    talk.send(2, WorkersFailing{0, "rank 1 was killed by SIGABRT", true}, 2200);
    CHECK_FALSE(talk.told<StopWorkers>(1)[0].is_orderly);
    for (const NodeId node : {1, 2, 3}) talk.send(node, WorkersEnded{.round = 0}, 2300);
    REQUIRE(talk.told<RoundFormed>(4).size() == 1);
    CHECK(talk.told<RoundFormed>(4)[0].restarts_used == 0);
    CHECK(talk.told<NextRound>(1)[0].reason ==
          "node4 has joined; meanwhile rank 1 was killed by SIGABRT");
  }

  TEST_CASE("orderly end: a failure before the stop for a new node uses a restart") {
    auto talk = newcomer_at(2100);
    talk.send(2, WorkersFailing{0, "rank 1 was killed by SIGABRT", false}, 2101);
    const Failure failure{.ran_seconds = 60, .description = "rank 1 was killed by SIGABRT"};
    talk.send(2, WorkersEnded{.round = 0, .failures = {failure}}, 2200);
    for (const NodeId node : {1, 3}) talk.send(node, WorkersEnded{.round = 0}, 2300);
    CHECK(talk.coordination().restarts_used() == 1);
  }

  TEST_CASE("orderly end: a failure shortly after the stop of peers uses no restart") {
    auto talk = newcomer_at(2100);
    talk.send(2, WorkersFailing{0, "rank 1 lost its peers", false}, 2101);
    const Failure failure{.is_victim = true, .description = "rank 1 lost its peers"};
    talk.send(2, WorkersEnded{.round = 0, .failures = {failure}}, 2200);
    for (const NodeId node : {1, 3}) talk.send(node, WorkersEnded{.round = 0}, 2300);
    CHECK(talk.coordination().restarts_used() == 0);
  }

  TEST_CASE("orderly end: failures of peers of a leaving node use no restart") {
    auto talk = newcomer_at(2100);
    talk.send(3, Leave{"was asked to stop"}, 2110);
    talk.send(2, WorkersFailing{0, "rank 1 failed", false}, 2120);
    for (const NodeId node : {1, 2, 3}) talk.send(node, WorkersEnded{.round = 0}, 2300);
    REQUIRE(talk.told<RoundFormed>(4).size() == 1);
    CHECK(talk.told<RoundFormed>(4)[0].restarts_used == 0);
  }

  TEST_CASE("orderly end: a run with all workers successful succeeds regardless of later changes") {
    for (const bool is_leave : {false, true}) {
      CAPTURE(is_leave);
      auto talk = newcomer_at(2100);
      if (is_leave) talk.host_leaves("node1 leaves", 2110);
      for (const NodeId node : {1, 2, 3}) {
        CHECK(talk.told<Finish>(4).empty());
        talk.send(node, WorkersEnded{.round = 0, .have_succeeded = true}, 2200);
      }
      REQUIRE(talk.told<Finish>(4).size() == 1);
      CHECK(talk.told<Finish>(4) == talk.told<Finish>(1));
      CHECK(talk.told<Finish>(4)[0].outcome.result == RunResult::succeeded);
      CHECK(talk.told<RoundFormed>(4).empty());
    }
  }

  TEST_CASE("orderly end: stopped workers and peers of lost nodes may not count as successful") {
    for (const bool is_lost : {false, true}) {
      CAPTURE(is_lost);
      auto talk = newcomer_at(2100);
      for (const NodeId node : {1, 2}) {
        talk.send(node, WorkersEnded{.round = 0, .have_succeeded = true}, 2200);
      }
      const WorkersEnded asked{.round = 0, .have_succeeded = true, .were_asked = true};
      if (is_lost) talk.gone(3, 2300);
      if (!is_lost) talk.send(3, asked, 2300);
      REQUIRE(talk.told<RoundFormed>(4).size() == 1);
      CHECK(talk.told<RoundFormed>(4)[0].restarts_used == 0);
    }
  }

  TEST_CASE("orderly end: a new node that cannot execute its workers leaves alone") {
    auto talk = newcomer_at(2100);
    for (const NodeId node : {1, 2, 3}) talk.send(node, WorkersEnded{.round = 0}, 2200);
    REQUIRE(talk.told<RoundFormed>(4).size() == 1);
    const WorkersEnded unable{.round = 1, .not_started = "node4: /opt/python: no such file"};
    talk.send(4, unable, 2300);
    REQUIRE(talk.told<StopWorkers>(1).size() == 1);
    CHECK(talk.told<StopWorkers>(1)[0].reason == unable.not_started);
    for (const NodeId node : {1, 2, 3}) talk.send(node, WorkersEnded{.round = 1}, 2400);
    REQUIRE(talk.told<Refused>(4).size() == 1);
    CHECK(talk.told<Refused>(4)[0].reason ==
          "node4: /opt/python: no such file; the other nodes continue without it");
    CHECK(talk.has<CloseConnection>());
    REQUIRE(talk.told<RoundFormed>(1).size() == 1);
    CHECK(talk.told<RoundFormed>(1)[0].nodes.size() == 3);
    CHECK(talk.told<RoundFormed>(1)[0].restarts_used == 0);
  }

  TEST_CASE("orderly end: a run without enough executable nodes ends for all") {
    for (const bool is_host : {false, true}) {
      CAPTURE(is_host);
      Talk talk({.run_id = "run", .nodes_min = is_host ? 1 : 2, .nodes_max = 2});
      auto join = talk.join_of("node1");
      join.is_host = is_host;
      talk.send(1, join, 0);
      talk.join(2, "node2", 0);
      talk.gone(2, 100);
      talk.join(3, "node3", 150);
      talk.send(1, WorkersEnded{.round = 0}, 200);
      REQUIRE(talk.told<RoundFormed>(3).size() == 1);
      talk.send(1, WorkersEnded{.round = 1, .not_started = "no such file"}, 300);
      talk.send(3, WorkersEnded{.round = 1}, 400);
      REQUIRE(talk.coordination().outcome());
      CHECK(talk.coordination().outcome()->result == RunResult::not_started);
    }
  }
}

}  // namespace orderly_end_test
