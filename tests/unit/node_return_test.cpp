// What a coordinator makes of a node that is back before the end of its former connection is known.
#include "rendezvous/membership/coordination.hpp"
#include "tests/support/membership_talk.hpp"

#include <doctest/doctest.h>

using namespace ddprun::membership;
using ddprun::test::Talk;

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

  TEST_CASE("another node does not take a rank over, nor one of the same name that is new") {
    Talk talk({.run_id = "run", .nodes_min = 2, .nodes_max = 2});
    Join join = talk.join_of("a");
    join.node_rank = 0;
    talk.say(1, join, 0);
    talk.say(2, join, 100);
    CHECK(talk.told<Refused>(2).size() == 1);
    Join other = talk.join_of("b");
    other.node_rank = 0;
    other.last_round = 0;
    talk.say(3, other, 200);
    CHECK(talk.told<Refused>(3).size() == 1);
  }
}
