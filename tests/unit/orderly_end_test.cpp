// Rounds that end although nothing is amiss.
#include "rendezvous/membership/coordination.hpp"
#include "tests/support/membership_talk.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace ddprun::membership;
using ddprun::test::Talk;
using namespace std::chrono_literals;

TEST_SUITE("orderly end") {
  TEST_CASE("a loss or a failure while a round ends in an orderly way makes it urgent, once") {
    for (const bool is_loss : {true, false}) {
      CAPTURE(is_loss);
      Settings settings{.run_id = "run", .nodes_min = 1, .nodes_max = 4};
      settings.last_call_timeout = 2s;
      Talk talk(settings);
      for (const NodeId node : {1, 2, 3}) talk.join(node, "node" + std::to_string(node), 0);
      talk.pass(2000);
      talk.join(4, "node4", 2100);
      REQUIRE(talk.told<StopWorkers>(1).size() == 1);
      CHECK(talk.told<StopWorkers>(1)[0].is_orderly);
      if (is_loss) talk.gone(3, 2200);
      if (!is_loss) talk.say(3, WorkersFailing{0, "rank 2 is dying"}, 2200);
      REQUIRE(talk.told<StopWorkers>(1).size() == 1);
      CHECK_FALSE(talk.told<StopWorkers>(1)[0].is_orderly);
      talk.gone(2, 2300);
      CHECK(talk.told<StopWorkers>(1).empty());
    }
  }
}
