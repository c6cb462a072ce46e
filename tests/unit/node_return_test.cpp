// Nodes that reconnect before the coordinator detects the end of their former connection.
#include "rendezvous/membership/coordination.hpp"
#include "tests/support/membership_talk.hpp"

#include <doctest/doctest.h>

#include <string>

namespace node_return_test {

using namespace ddprun::membership;
using ddprun::test::Talk;
using namespace std::chrono_literals;

namespace {

/// A new agent of a node that requests rank 0.
Join ranked(const Talk& talk, const std::string& name) {
  auto join = talk.join_of(name);
  join.node_rank = 0;
  return join;
}

}  // namespace

TEST_SUITE("node return") {
  TEST_CASE("node return: a node that reconnects replaces its former connection") {
    Talk talk({.run_id = "run", .nodes_min = 2, .nodes_max = 2});
    Join join = talk.join_of("a");
    join.node_rank = 0;
    talk.send(1, join, 0);
    Join other = talk.join_of("b");
    other.node_rank = 1;
    talk.send(2, other, 0);
    REQUIRE(talk.told<RoundFormed>(2).size() == 1);
    other.last_round = 0;
    talk.send(3, other, 2600);
    CHECK(talk.told<Refused>(3).empty());
    CHECK(talk.has<CloseConnection>());
    CHECK(talk.told<StopWorkers>(1)[0].reason == "b is lost: it has reconnected");
    talk.send(1, WorkersEnded{.round = 0}, 2700);
    REQUIRE(talk.told<RoundFormed>(3).size() == 1);
    CHECK(talk.told<RoundFormed>(3)[0].node_rank == 1);
  }

  TEST_CASE("node return: an agent that reconnects before the first round joins at once") {
    Talk talk({.run_id = "run", .nodes_min = 2, .nodes_max = 2});
    const Join join = ranked(talk, "a");
    talk.send(1, join, 0);
    talk.send(2, join, 10);
    CHECK(talk.told<Refused>(2).empty());
    CHECK(talk.told<Welcome>(2).size() == 1);
    CHECK(talk.has<CloseConnection>());
  }

  TEST_CASE("node return: messages of an older connection do not replace later ones") {
    Talk talk({.run_id = "run", .nodes_min = 2, .nodes_max = 2});
    auto join = talk.join_of("a");
    join.connection = 2;
    talk.send(1, join, 0);
    join.connection = 1;
    talk.send(2, join, 10);
    CHECK(talk.told<Welcome>(2).empty());
    CHECK(talk.has<CloseConnection>());
    talk.join(3, "b", 20);
    CHECK(talk.told<RoundFormed>(1).size() == 1);
  }

  TEST_CASE("node return: another node cannot take a rank") {
    Talk talk({.run_id = "run", .nodes_min = 2, .nodes_max = 2});
    talk.send(1, ranked(talk, "a"), 0);
    talk.send(2, ranked(talk, "b"), 200);
    REQUIRE(talk.told<Refused>(2).size() == 1);
    CHECK(talk.told<Refused>(2)[0].reason == "--node_rank=0 is taken by a");
  }

  TEST_CASE("node return: a restarted agent gets its rank when the old one is lost") {
    for (const bool is_silent : {false, true}) {
      CAPTURE(is_silent);
      Talk talk({.run_id = "run", .nodes_min = 2, .nodes_max = 2});
      talk.send(1, ranked(talk, "a"), 0);
      // The last message of the former agent may be late.
      const auto join = ranked(talk, "a");
      talk.send(2, join, 1000);
      CHECK(talk.told<Waiting>(2).size() == 1);
      talk.beat({1}, 1400);
      CHECK(talk.told<Refused>(2).empty());
      CHECK(talk.told<Welcome>(2).empty());
      if (!is_silent) talk.gone(1, 1499);
      if (is_silent) {
        talk.pass(4400);
        CHECK(talk.told<Welcome>(2).empty());  // it would count its lease from 1000
        CHECK(talk.has<CloseConnection>());
        talk.send(2, join, 4500);
      }
      CHECK(talk.told<Welcome>(2).size() == 1);
      talk.join(3, "b", 4600);
      REQUIRE(talk.told<RoundFormed>(2).size() == (is_silent ? 1U : 0U));
    }
  }

  TEST_CASE("node return: a node of any name waits for the rank of a leaving node") {
    for (const auto* name : {"a", "b"}) {
      CAPTURE(name);
      Talk talk({.run_id = "run", .nodes_min = 1, .nodes_max = 1});
      talk.send(1, ranked(talk, "a"), 0);
      talk.send(1, Leave{"was asked to stop by SIGTERM", 15}, 100);
      const auto join = ranked(talk, name);
      talk.send(2, join, 200);
      REQUIRE(talk.told<Waiting>(2).size() == 1);
      CHECK(talk.told<Waiting>(2)[0].text ==
            "--node_rank=0 is taken by a, which is leaving; waiting until it has left");
      for (int now = 500; now < 29'000; now += 500) {
        talk.beat({1}, now);
        REQUIRE(talk.told<Refused>(2).empty());
      }
      talk.send(1, WorkersEnded{.round = 0, .were_asked = true}, 29'000);
      talk.gone(1, 29'100);
      CHECK(talk.has<CloseConnection>());
      talk.send(3, join, 29'200);
      CHECK(talk.told<RoundFormed>(3).size() == 1);
    }
  }

  TEST_CASE("node return: with a long lease a duplicate agent is notified and finally rejected") {
    Talk talk({.run_id = "run", .nodes_min = 2, .nodes_max = 2, .lease = 30s});
    talk.send(1, ranked(talk, "a"), 0);
    talk.send(2, ranked(talk, "a"), 1000);
    int last_word = 1000;
    bool is_refused = false;
    for (int now = 2000; now <= 30'000 && !is_refused; now += 1000) {
      if (now % 5000 == 0) talk.beat({1}, now);
      if (now % 5000 != 0) talk.pass(now);
      CHECK(talk.coordination().next_wake() > Talk::at(now));
      if (!talk.told<Waiting>(2).empty()) last_word = now;
      is_refused = !talk.told<Refused>(2).empty();
      CHECK(now - last_word < 10'000);
    }
    CHECK(is_refused);
  }

  TEST_CASE("node return: a duplicate agent is rejected while the other one lives") {
    Talk talk({.run_id = "run", .nodes_min = 2, .nodes_max = 2});
    talk.send(1, ranked(talk, "a"), 0);
    talk.send(2, ranked(talk, "a"), 1000);
    talk.beat({1}, 1500);
    talk.beat({1}, 2000);
    CHECK(talk.told<Refused>(2).empty());
    talk.beat({1}, 2500);
    REQUIRE(talk.told<Refused>(2).size() == 1);
    CHECK(talk.told<Refused>(2)[0].reason ==
          "--node_rank=0 is taken by another agent named a, which is alive; give each node "
          "its own --node_rank");
    CHECK(talk.has<CloseConnection>());
  }

  TEST_CASE("node return: a waiting agent can leave and gets the outcome later") {
    Talk talk({.run_id = "run", .nodes_min = 1, .nodes_max = 1});
    talk.send(1, ranked(talk, "a"), 0);
    talk.send(2, ranked(talk, "a"), 100);
    talk.send(3, ranked(talk, "a"), 100);
    talk.gone(2, 200);
    talk.send(1, WorkersEnded{.round = 0, .have_succeeded = true}, 300);
    talk.gone(1, 400);
    CHECK(talk.told<Welcome>(2).empty());
    CHECK(talk.told<Refused>(2).empty());
    REQUIRE(talk.told<Refused>(3).size() == 1);
    CHECK(talk.told<Refused>(3)[0].reason == "the run has ended: all workers succeeded");
    CHECK(talk.coordination().is_over());
  }
}

}  // namespace node_return_test
