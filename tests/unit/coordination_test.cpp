#include "rendezvous/membership/coordination.hpp"

#include "rendezvous/membership/outsider.hpp"
#include "tests/support/membership_talk.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>

namespace coordination_test {

using namespace ddprun::membership;
using ddprun::test::Talk;
using namespace std::chrono_literals;

namespace {

Settings settings(int least, int most, int max_restarts = 0) {
  Settings result{.run_id = "run", .nodes_min = least, .nodes_max = most};
  result.restarts.max_restarts = max_restarts;
  result.join_timeout = 60s;
  result.last_call_timeout = 2s;
  return result;
}

/// Two nodes in round 0.
Talk two_running(Settings with) {
  Talk talk(with);
  talk.join(1, "node1", 0);
  talk.join(2, "node2", 0);
  if (with.nodes_max > 2) talk.pass(2000);
  return talk;
}

Failure failure(const std::string& node, bool is_victim = false) {
  return {.is_victim = is_victim,
          .ran_seconds = 60,
          .description = "a worker of " + node + " failed",
          .node = node};
}

}  // namespace

TEST_SUITE("coordination") {
  TEST_CASE("coordination: a round starts at once when the maximum of nodes has joined") {
    Talk talk(settings(2, 2));
    talk.join(1, "node10", 0);
    CHECK_FALSE(talk.has<ClearStore>());
    talk.join(2, "node2", 100);
    CHECK(talk.has<ClearStore>());
    const auto formed = talk.told<RoundFormed>(1);
    REQUIRE(formed.size() == 1);
    CHECK(formed[0].node_rank == 1);
    CHECK(formed[0].nodes[0].name == "node2");
    CHECK(talk.told<RoundFormed>(2)[0].node_rank == 0);
  }

  TEST_CASE("coordination: with fewer nodes a round waits for the last call timeout") {
    Talk talk(settings(1, 3));
    talk.join(1, "a", 0);
    talk.beat({1}, 1999);
    CHECK(talk.told<RoundFormed>(1).empty());
    CHECK(talk.coordination().next_wake() == Talk::at(2000));
    talk.pass(2000);
    CHECK(talk.told<RoundFormed>(1).size() == 1);
  }

  TEST_CASE("coordination: a run with missing nodes ends for all present nodes with their names") {
    Talk talk(settings(2, 2));
    talk.join(1, "a", 0);
    for (int now = 1000; now < 60'000; now += 1000) talk.beat({1}, now);
    talk.pass(60'000);
    const auto finish = talk.told<Finish>(1);
    REQUIRE(finish.size() == 1);
    CHECK(finish[0].outcome.result == RunResult::no_rendezvous);
    CHECK(finish[0].outcome.reason ==
          "only 1 of at least 2 nodes joined within 60 s (join_timeout): a");
  }

  TEST_CASE("coordination: a failure stops the workers of all nodes and uses one restart") {
    auto talk = two_running(settings(2, 2, 1));
    talk.send(2, WorkersFailing{0, "rank 1 failed"}, 2500);
    CHECK(talk.told<StopWorkers>(1).size() == 1);
    talk.beat({1, 2}, 2600);
    talk.send(2, WorkersEnded{.round = 0, .failures = {failure("node2")}}, 5200);
    CHECK(talk.told<RoundFormed>(1).empty());
    talk.send(1, WorkersEnded{.round = 0}, 5300);
    REQUIRE(talk.told<RoundFormed>(1).size() == 1);
    CHECK(talk.told<RoundFormed>(1)[0].round == 1);
    CHECK(talk.told<RoundFormed>(1)[0].restarts_used == 1);
  }

  TEST_CASE("coordination: all nodes get the same outcome with the first cause first") {
    auto talk = two_running(settings(2, 2));
    talk.send(2, WorkersFailing{0, "rank 1 failed"}, 2500);
    talk.send(1, WorkersFailing{0, "rank 0 failed"}, 2501);
    // The node that failed second is the first to have stopped its workers.
    talk.send(1, WorkersEnded{.round = 0, .failures = {failure("node1")}}, 2600);
    talk.send(2, WorkersEnded{.round = 0, .failures = {failure("node2")}}, 2700);
    REQUIRE(talk.told<Finish>(1).size() == 1);
    CHECK(talk.told<Finish>(1) == talk.told<Finish>(2));
    const auto outcome = talk.told<Finish>(1)[0].outcome;
    CHECK(outcome.result == RunResult::failed);
    CHECK(outcome.failures[0].node == "node2");
    CHECK(outcome.reason == "a worker of node2 failed; --max_restarts is 0");
  }

  TEST_CASE("coordination: a heartbeat's answer contains the longest wait of other nodes") {
    Talk talk(settings(3, 3));
    for (const NodeId node : {1, 2, 3}) talk.join(node, "node" + std::to_string(node), 0);
    const auto answer = [&talk](NodeId node, int wait, int now) {
      talk.send(node, Heartbeat{1, 0, std::chrono::milliseconds(wait)}, now);
      return talk.told<HeartbeatAnswer>(node).at(0).others_wait.count();
    };
    CHECK(answer(1, 900, 1000) == 0);
    CHECK(answer(2, 800, 1100) == 1000);
    CHECK(answer(1, 1400, 1500) == 1200);
    CHECK(answer(3, 0, 1500) == 1400);
    // Waits that overlap do not add up.
    CHECK(answer(1, 0, 1600) == 1300);
    CHECK(answer(3, 0, 1600) == 1300);
    CHECK(answer(2, 0, 1700) == 0);
    CHECK(answer(3, 0, 1700) == 0);
  }

  TEST_CASE("coordination: waits end with their round") {
    auto talk = two_running(settings(2, 2, 1));
    talk.send(1, Heartbeat{1, 0, std::chrono::milliseconds(1000)}, 2100);
    talk.send(2, WorkersEnded{.round = 0, .failures = {failure("node2")}}, 2200);
    talk.send(1, WorkersEnded{.round = 0}, 2300);
    REQUIRE(talk.told<RoundFormed>(1).size() == 1);
    talk.send(1, Heartbeat{2, 0, std::chrono::milliseconds(1300)}, 2350);
    talk.send(2, Heartbeat{2}, 2400);
    CHECK(talk.told<HeartbeatAnswer>(2).at(0).others_wait.count() == 0);
  }

  TEST_CASE("coordination: failures that blame a peer come last") {
    auto talk = two_running(settings(2, 2));
    talk.send(1, WorkersEnded{.round = 0, .failures = {failure("node1", true)}}, 2600);
    talk.send(2, WorkersEnded{.round = 0, .failures = {failure("node2")}}, 2700);
    CHECK(talk.told<Finish>(1)[0].outcome.failures[0].node == "node2");
  }

  TEST_CASE("coordination: messages about an older round change nothing") {
    auto talk = two_running(settings(2, 2, 3));
    talk.send(2, WorkersFailing{0, "x"}, 2100);
    talk.send(1, WorkersEnded{.round = 0}, 2200);
    talk.send(2, WorkersEnded{.round = 0, .failures = {failure("node2")}}, 2300);
    REQUIRE(talk.coordination().round() == 1);
    talk.send(2, WorkersFailing{0, "late"}, 2400);
    CHECK(talk.told<StopWorkers>(1).empty());
    talk.send(2, WorkersEnded{.round = 0, .failures = {failure("node2")}}, 2400);
    CHECK(talk.told<StopWorkers>(1).empty());
  }

  TEST_CASE("coordination: a run succeeds when the workers of all nodes have succeeded") {
    auto talk = two_running(settings(2, 2));
    talk.send(1, WorkersEnded{.round = 0, .have_succeeded = true}, 2500);
    CHECK(talk.told<Finish>(1).empty());
    talk.send(2, WorkersEnded{.round = 0, .have_succeeded = true}, 2600);
    CHECK(talk.told<Finish>(1)[0].outcome.result == RunResult::succeeded);
    talk.gone(1, 2700);
    CHECK_FALSE(talk.coordination().is_over());
    talk.gone(2, 2700);
    CHECK(talk.coordination().is_over());
  }

  TEST_CASE("coordination: a lost node uses no restart and enough remaining nodes continue") {
    auto talk = two_running(settings(1, 2));
    talk.gone(2, 2500);
    CHECK(talk.told<StopWorkers>(1)[0].reason == "node2 is lost: its connection was closed");
    talk.send(1, WorkersEnded{.round = 0}, 2600);
    const auto formed = talk.told<RoundFormed>(1);
    REQUIRE(formed.size() == 1);
    CHECK(formed[0].nodes.size() == 1);
    CHECK(formed[0].restarts_used == 0);
  }

  TEST_CASE("coordination: nodes with the same name differ by rank") {
    Talk talk(settings(1, 2));
    talk.join(1, "vm", 0);
    talk.join(2, "vm", 0);
    const auto rank = std::to_string(talk.told<RoundFormed>(2)[0].node_rank);
    talk.gone(2, 2500);
    CHECK(talk.told<StopWorkers>(1)[0].reason ==
          "vm (node rank " + rank + ") is lost: its connection was closed");
  }

  TEST_CASE("coordination: a silent node is lost exactly when its lease expires") {
    auto talk = two_running(settings(1, 2));
    talk.beat({1, 2}, 2000);
    talk.beat({1}, 4999);
    CHECK(talk.told<StopWorkers>(1).empty());
    talk.pass(5000);
    CHECK(talk.told<StopWorkers>(1)[0].reason == "node2 is lost: it was silent for 3 s");
    CHECK(talk.has<CloseConnection>());
  }

  TEST_CASE("coordination: failures caused by a lost node use no restart") {
    auto talk = two_running(settings(1, 2));
    talk.beat({1, 2}, 2000);
    talk.send(1, WorkersFailing{0, "rank 0 failed"}, 2100);
    talk.send(1, WorkersEnded{.round = 0, .failures = {failure("node1")}}, 2200);
    talk.beat({1}, 4000);
    talk.pass(5000);
    REQUIRE(talk.told<RoundFormed>(1).size() == 1);
    CHECK(talk.told<RoundFormed>(1)[0].restarts_used == 0);
  }

  TEST_CASE("coordination: too few remaining nodes wait and continue with a new node") {
    auto talk = two_running(settings(2, 2));
    talk.gone(2, 2500);
    talk.send(1, WorkersEnded{.round = 0}, 2600);
    CHECK(talk.told<RoundFormed>(1).empty());
    talk.join(3, "node3", 2900);
    REQUIRE(talk.told<RoundFormed>(3).size() == 1);
    CHECK(talk.told<RoundFormed>(3)[0].node_rank == 1);
    CHECK(talk.told<RoundFormed>(1)[0].node_rank == 0);
  }

  TEST_CASE("coordination: a node that leaves is not waited for once its workers have ended") {
    auto talk = two_running(settings(1, 2));
    talk.send(2, Leave{"was asked to stop by SIGTERM"}, 2500);
    CHECK(talk.told<StopWorkers>(1)[0].reason == "node2 has left: it was asked to stop by SIGTERM");
    talk.send(1, WorkersEnded{.round = 0}, 2600);
    CHECK(talk.told<RoundFormed>(1).empty());
    talk.send(2, WorkersEnded{.round = 0}, 2700);
    REQUIRE(talk.told<RoundFormed>(1).size() == 1);
    CHECK(talk.told<RoundFormed>(1)[0].nodes.size() == 1);
    CHECK(talk.told<RoundFormed>(1)[0].restarts_used == 0);
  }

  TEST_CASE("coordination: a new node joins at once if there is room and otherwise is a spare") {
    auto talk = two_running(settings(1, 3));
    talk.join(3, "node3", 2100);
    CHECK(talk.told<StopWorkers>(1)[0].reason == "node3 has joined");
    talk.send(1, WorkersEnded{.round = 0}, 2200);
    talk.send(2, WorkersEnded{.round = 0}, 2200);
    CHECK(talk.told<RoundFormed>(3)[0].node_rank == 2);
    talk.join(4, "node4", 2300);
    CHECK(talk.told<StopWorkers>(1).empty());
    CHECK(talk.told<Waiting>(4)[0].text ==
          "the round has 3 nodes of at most 3; this one waits to replace another");
    talk.gone(1, 2400);
    talk.send(2, WorkersEnded{.round = 1}, 2500);
    talk.send(3, WorkersEnded{.round = 1}, 2500);
    CHECK(talk.told<RoundFormed>(2)[0].node_rank == 0);
    CHECK(talk.told<RoundFormed>(3)[0].node_rank == 1);
    CHECK(talk.told<RoundFormed>(4)[0].node_rank == 2);
  }

  TEST_CASE("coordination: a round with successful nodes is not restarted for a new node") {
    auto talk = two_running(settings(1, 3));
    talk.send(1, WorkersEnded{.round = 0, .have_succeeded = true}, 2100);
    talk.join(3, "node3", 2200);
    CHECK(talk.told<StopWorkers>(2).empty());
  }

  TEST_CASE("coordination: successful nodes wait for the others for a limited time") {
    auto with = settings(2, 2);
    with.exit_barrier_timeout = 10s;
    auto talk = two_running(with);
    talk.send(1, WorkersEnded{.round = 0, .have_succeeded = true}, 2000);
    talk.beat({2}, 2000);
    for (int now = 3000; now < 12'000; now += 1000) talk.beat({1, 2}, now);
    CHECK(talk.told<Finish>(1).empty());
    talk.pass(12'000);
    REQUIRE(talk.told<Finish>(1).size() == 1);
    CHECK(talk.told<Finish>(1)[0].outcome.scope == OutcomeScope::node);
    CHECK(talk.told<Finish>(1)[0].outcome.reason ==
          "the workers of this node succeeded, and those of others have not ended after 10 s "
          "(exit_barrier_timeout), and may still fail: node2");
    talk.send(2, WorkersEnded{.round = 0, .have_succeeded = true}, 12'500);
    CHECK(talk.told<Finish>(2)[0].outcome.scope == OutcomeScope::run);
    CHECK(talk.told<Finish>(2)[0].outcome.result == RunResult::succeeded);
  }

  TEST_CASE("coordination: a stop of the host ends the run on all nodes with the same signal") {
    Talk talk(settings(1, 2));
    Join host = talk.join_of("node1");
    host.is_host = true;
    talk.send(1, host, 0);
    talk.join(2, "node2", 0);
    talk.send(1, Leave{"was asked to stop by SIGINT", 2}, 1000);
    REQUIRE(talk.told<StopWorkers>(2).size() == 1);
    CHECK(talk.told<StopWorkers>(2)[0].signal == 2);
    talk.send(1, WorkersEnded{.round = 0}, 1100);
    talk.send(2, WorkersEnded{.round = 0}, 1200);
    const auto outcome = talk.told<Finish>(2)[0].outcome;
    CHECK(outcome.result == RunResult::interrupted);
    CHECK(outcome.signal == 2);
    CHECK(outcome.reason == "node1, which hosts the rendezvous, was asked to stop by SIGINT");
  }

  TEST_CASE("coordination: a worker that cannot be executed ends the run without restarts") {
    auto talk = two_running(settings(2, 2, 3));
    talk.send(1, WorkersEnded{.round = 0, .not_started = "node1: no such file"}, 2100);
    talk.send(2, WorkersEnded{.round = 0}, 2200);
    CHECK(talk.told<Finish>(2)[0].outcome.result == RunResult::not_started);
    CHECK(talk.told<Finish>(2)[0].outcome.reason == "node1: no such file");
  }

  TEST_CASE("coordination: a restarted coordinator continues rounds and restarts from the nodes") {
    Talk talk(settings(2, 2, 5));
    Join join = talk.join_of("a");
    join.last_round = 6;
    join.restarts_used = 2;
    talk.send(1, join, 0);
    talk.join(2, "b", 0);
    CHECK(talk.told<RoundFormed>(2)[0].round == 7);
    CHECK(talk.told<RoundFormed>(2)[0].restarts_used == 2);
  }

  TEST_CASE("coordination: the wait for a node that does not leave at the end is limited") {
    auto talk = two_running(settings(2, 2));
    talk.send(1, WorkersEnded{.round = 0, .have_succeeded = true}, 100);
    talk.send(2, WorkersEnded{.round = 0, .have_succeeded = true}, 200);
    talk.gone(1, 300);
    CHECK(talk.coordination().next_wake() == Talk::at(5200));
    talk.pass(5200);
    CHECK(talk.coordination().is_over());
  }

  TEST_CASE("coordination: only restarts within the window count") {
    auto with = settings(1, 2, 1);
    with.nodes_max = 1;
    with.restarts.window = 10s;
    Talk talk(with);
    talk.join(1, "a", 0);
    talk.send(1, WorkersEnded{.round = 0, .failures = {failure("a")}}, 1000);
    CHECK(talk.told<RoundFormed>(1).size() == 1);
    for (int now = 2000; now < 11'000; now += 1000) talk.beat({1}, now);
    talk.send(1, WorkersEnded{.round = 1, .failures = {failure("a")}}, 11'000);
    CHECK(talk.told<RoundFormed>(1).size() == 1);
    talk.send(1, WorkersEnded{.round = 2, .failures = {failure("a")}}, 12'000);
    CHECK(talk.told<Finish>(1)[0].outcome.reason ==
          "a worker of a failed; the only restart is used");
  }
}

}  // namespace coordination_test
