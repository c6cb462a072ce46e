// What a coordinator makes of a node that is back before the end of its former connection is known.
#include "rendezvous/membership/coordination.hpp"
#include "tests/support/membership_talk.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun::membership;
using ddprun::test::Talk;

namespace {

/// A new agent of a node that wants rank 0.
Join ranked(const Talk& talk, const std::string& name) {
  auto join = talk.join_of(name);
  join.node_rank = 0;
  return join;
}

}  // namespace

TEST_SUITE("node return") {
  TEST_CASE("a node that comes back takes its own rank over from its former connection") {
    Talk talk({.run_id = "run", .nodes_min = 2, .nodes_max = 2});
    Join join = talk.join_of("a");
    join.node_rank = 0;
    talk.say(1, join, 0);
    Join other = talk.join_of("b");
    other.node_rank = 1;
    talk.say(2, other, 0);
    REQUIRE(talk.told<RoundFormed>(2).size() == 1);
    other.last_round = 0;
    talk.say(3, other, 2600);
    CHECK(talk.told<Refused>(3).empty());
    CHECK(talk.has<HangUp>());
    CHECK(talk.told<StopWorkers>(1)[0].reason ==
          "b is lost: it has come back over another connection");
    talk.say(1, WorkersEnded{.round = 0}, 2700);
    REQUIRE(talk.told<RoundFormed>(3).size() == 1);
    CHECK(talk.told<RoundFormed>(3)[0].node_rank == 1);
  }

  TEST_CASE("an agent that comes back before the first round takes its place over at once") {
    Talk talk({.run_id = "run", .nodes_min = 2, .nodes_max = 2});
    const Join join = ranked(talk, "a");
    talk.say(1, join, 0);
    talk.say(2, join, 10);
    CHECK(talk.told<Refused>(2).empty());
    CHECK(talk.told<Welcome>(2).size() == 1);
    CHECK(talk.has<HangUp>());
  }

  TEST_CASE("what an agent has said over an earlier connection does not replace a later one") {
    Talk talk({.run_id = "run", .nodes_min = 2, .nodes_max = 2});
    auto join = talk.join_of("a");
    join.connection = 2;
    talk.say(1, join, 0);
    join.connection = 1;
    talk.say(2, join, 10);
    CHECK(talk.told<Welcome>(2).empty());
    CHECK(talk.has<HangUp>());
    talk.join(3, "b", 20);
    CHECK(talk.told<RoundFormed>(1).size() == 1);
  }

  TEST_CASE("another node does not take a rank over") {
    Talk talk({.run_id = "run", .nodes_min = 2, .nodes_max = 2});
    talk.say(1, ranked(talk, "a"), 0);
    talk.say(2, ranked(talk, "b"), 200);
    REQUIRE(talk.told<Refused>(2).size() == 1);
    CHECK(talk.told<Refused>(2)[0].reason == "--node_rank=0 is that of a already");
  }

  TEST_CASE("an agent that was started anew has its place when the one before is lost") {
    for (const bool is_silent : {false, true}) {
      CAPTURE(is_silent);
      Talk talk({.run_id = "run", .nodes_min = 2, .nodes_max = 2});
      talk.say(1, ranked(talk, "a"), 0);
      // The last words of the one before may be late.
      talk.say(2, ranked(talk, "a"), 1000);
      talk.beat({1}, 1900);
      CHECK(talk.told<Refused>(2).empty());
      CHECK(talk.told<Welcome>(2).empty());
      if (!is_silent) talk.gone(1, 2000);
      if (is_silent) talk.pass(4900);
      CHECK(talk.told<Welcome>(2).size() == 1);
      talk.join(3, "b", is_silent ? 5000 : 2100);
      REQUIRE(talk.told<RoundFormed>(2).size() == 1);
      CHECK(talk.told<RoundFormed>(2)[0].nodes.size() == 2);
    }
  }

  TEST_CASE("an agent that was started twice is told so while the other one lives") {
    Talk talk({.run_id = "run", .nodes_min = 2, .nodes_max = 2});
    talk.say(1, ranked(talk, "a"), 0);
    talk.say(2, ranked(talk, "a"), 1000);
    talk.beat({1}, 1500);
    talk.beat({1}, 2000);
    CHECK(talk.told<Refused>(2).empty());
    talk.beat({1}, 2500);
    REQUIRE(talk.told<Refused>(2).size() == 1);
    CHECK(talk.told<Refused>(2)[0].reason ==
          "--node_rank=0 is that of another agent of that name, which is alive: has ddprun been "
          "started twice there?");
    CHECK(talk.has<HangUp>());
  }

  TEST_CASE("an agent that waits for its place may go, and finds the run ended") {
    Talk talk({.run_id = "run", .nodes_min = 1, .nodes_max = 1});
    talk.say(1, ranked(talk, "a"), 0);
    talk.say(2, ranked(talk, "a"), 100);
    talk.say(3, ranked(talk, "a"), 100);
    talk.gone(2, 200);
    talk.say(1, WorkersEnded{.round = 0, .have_succeeded = true}, 300);
    talk.gone(1, 400);
    CHECK(talk.told<Welcome>(2).empty());
    CHECK(talk.told<Refused>(2).empty());
    REQUIRE(talk.told<Refused>(3).size() == 1);
    CHECK(talk.told<Refused>(3)[0].reason == "the run has ended: all workers succeeded");
    CHECK(talk.coordination().is_over());
  }
}
