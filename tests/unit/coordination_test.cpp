#include "rendezvous/membership/coordination.hpp"

#include "rendezvous/membership/outsider.hpp"
#include "rendezvous/membership/round_failures.hpp"
#include "tests/support/coordination_driver.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>

namespace coordination_test {

using namespace ddprun::membership;
using ddprun::test::CoordinationDriver;
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
CoordinationDriver two_running(const Settings& with) {
  CoordinationDriver driver(with);
  driver.join(1, "node1", 0);
  driver.join(2, "node2", 0);
  if (with.nodes_max > 2) driver.pass(2000);
  return driver;
}

Failure failure(const std::string& node, bool is_victim = false) {
  return {.is_victim = is_victim,
          .ran_seconds = 60,
          .description = "a worker of " + node + " failed",
          .node = node};
}

}  // namespace

TEST_SUITE("coordination") {
  TEST_CASE("coordination: a round starts at once when the maximum number of nodes has joined") {
    CoordinationDriver driver(settings(2, 2));
    driver.join(1, "node10", 0);
    CHECK_FALSE(driver.has<ClearStore>());
    driver.join(2, "node2", 100);
    CHECK(driver.has<ClearStore>());
    const auto formed = driver.sent_to<RoundFormed>(1);
    REQUIRE(formed.size() == 1);
    CHECK(formed[0].node_rank == 1);
    CHECK(formed[0].nodes[0].name == "node2");
    CHECK(driver.sent_to<RoundFormed>(2)[0].node_rank == 0);
  }

  TEST_CASE("coordination: a round with fewer nodes than allowed starts after last_call_timeout") {
    CoordinationDriver driver(settings(1, 3));
    driver.join(1, "a", 0);
    driver.beat({1}, 1999);
    CHECK(driver.sent_to<RoundFormed>(1).empty());
    CHECK(driver.coordination().next_wake() == CoordinationDriver::at(2000));
    driver.pass(2000);
    CHECK(driver.sent_to<RoundFormed>(1).size() == 1);
  }

  TEST_CASE("coordination: a join timeout ends the run and names the nodes that have joined") {
    CoordinationDriver driver(settings(2, 2));
    driver.join(1, "a", 0);
    for (int now = 1000; now < 60'000; now += 1000) driver.beat({1}, now);
    driver.pass(60'000);
    const auto finish = driver.sent_to<Finish>(1);
    REQUIRE(finish.size() == 1);
    CHECK(finish[0].outcome.result == RunResult::no_rendezvous);
    CHECK(finish[0].outcome.reason ==
          "only 1 of at least 2 nodes joined within 60 s (join_timeout): a");
  }

  TEST_CASE("coordination: a failure stops the workers of all nodes and uses one restart") {
    auto driver = two_running(settings(2, 2, 1));
    driver.send(2, WorkersFailing{0, "rank 1 failed"}, 2500);
    CHECK(driver.sent_to<StopWorkers>(1).size() == 1);
    driver.beat({1, 2}, 2600);
    driver.send(2, WorkersEnded{.round = 0, .failures = {failure("node2")}}, 5200);
    CHECK(driver.sent_to<RoundFormed>(1).empty());
    driver.send(1, WorkersEnded{.round = 0}, 5300);
    REQUIRE(driver.sent_to<RoundFormed>(1).size() == 1);
    CHECK(driver.sent_to<RoundFormed>(1)[0].round == 1);
    CHECK(driver.sent_to<RoundFormed>(1)[0].restarts_used == 1);
  }

  TEST_CASE("coordination: a hang is forwarded to the other nodes of its round") {
    auto driver = two_running(settings(2, 3));
    driver.join(3, "spare", 2100);
    driver.send(2, HangNotice{.round = 0, .ranks = {{1, "sleeps"}}}, 2200);
    const HangNotice forwarded{.round = 0, .node = "node2", .ranks = {{1, "sleeps"}}};
    CHECK(driver.sent_to<HangNotice>(1) == std::vector{forwarded});
    CHECK(driver.sent_to<HangNotice>(2).empty());
    CHECK(driver.sent_to<HangNotice>(3).empty());
    driver.send(2, HangNotice{.round = 1, .ranks = {{1, "sleeps"}}}, 2300);
    CHECK(driver.sent_to<HangNotice>(1).empty());
    driver.send(3, HangNotice{.round = 0, .ranks = {{1, "sleeps"}}}, 2400);
    CHECK(driver.sent_to<HangNotice>(1).empty());
  }

  TEST_CASE("coordination: stacks and slow ranks are forwarded to the first node only") {
    CoordinationDriver driver(settings(3, 3));
    for (NodeId node = 1; node <= 3; ++node) driver.join(node, "node" + std::to_string(node), 0);
    driver.join(4, "spare", 50);
    const StacksTaken taken{.rank = 1, .lines = {"main"}};
    driver.send(2, StacksNotice{.round = 0, .stacks = {taken}}, 100);
    const StacksNotice forwarded{.round = 0, .node = "node2", .stacks = {taken}};
    CHECK(driver.sent_to<StacksNotice>(1) == std::vector{forwarded});
    CHECK(driver.sent_to<StacksNotice>(3).empty());
    driver.send(2, SlowRankNotice{.round = 0, .rank = 1}, 150);
    CHECK(driver.sent_to<SlowRankNotice>(1).size() == 1);
    for (const auto& row : {std::pair<NodeId, int>(1, 0), {2, 1}, {4, 0}}) {
      CAPTURE(row.first);
      driver.send(row.first, StacksNotice{.round = row.second, .stacks = {taken}}, 200);
      CHECK(driver.sent_to<StacksNotice>(1).empty());
    }
  }

  TEST_CASE("coordination: all nodes get the same outcome and the earliest failure is first") {
    auto driver = two_running(settings(2, 2));
    driver.send(2, WorkersFailing{0, "rank 1 failed"}, 2500);
    driver.send(1, WorkersFailing{0, "rank 0 failed"}, 2501);
    // The node that failed second is the first to have stopped its workers.
    driver.send(1, WorkersEnded{.round = 0, .failures = {failure("node1")}}, 2600);
    driver.send(2, WorkersEnded{.round = 0, .failures = {failure("node2")}}, 2700);
    REQUIRE(driver.sent_to<Finish>(1).size() == 1);
    CHECK(driver.sent_to<Finish>(1) == driver.sent_to<Finish>(2));
    const auto outcome = driver.sent_to<Finish>(1)[0].outcome;
    CHECK(outcome.result == RunResult::failed);
    CHECK(outcome.failures[0].node == "node2");
    CHECK(outcome.reason == "a worker of node2 failed; --max_restarts is 0");
  }

  TEST_CASE("coordination: a heartbeat response contains the longest wait of the other nodes") {
    CoordinationDriver driver(settings(3, 3));
    for (const NodeId node : {1, 2, 3}) driver.join(node, "node" + std::to_string(node), 0);
    const auto answer = [&driver](NodeId node, int wait, int now) {
      driver.send(node, Heartbeat{1, 0, {.wait = std::chrono::milliseconds(wait)}}, now);
      return driver.sent_to<HeartbeatAnswer>(node).at(0).activity.wait.count();
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

  TEST_CASE("coordination: a heartbeat's answer contains the median work share of all nodes") {
    CoordinationDriver driver(settings(4, 4));
    for (const NodeId node : {1, 2, 3, 4}) driver.join(node, "node" + std::to_string(node), 0);
    const auto answer = [&driver](NodeId node, int share, int round = 0) {
      driver.send(node, Heartbeat{1, round, {.work_share = share}}, 1000);
      return driver.sent_to<HeartbeatAnswer>(node).at(0).activity.work_share;
    };
    CHECK(answer(1, -1) == -1);
    CHECK(answer(1, 1000) == 1000);
    CHECK(answer(2, 1) == 1);
    CHECK(answer(3, 700) == 700);
    CHECK(answer(4, 800) == 700);
    CHECK(answer(2, 900) == 800);
    // Of another round.
    CHECK(answer(4, 800, 1) == 900);
    CHECK(answer(4, -1) == 900);
  }

  TEST_CASE("coordination: a heartbeat's answer says whether all ranks of the other nodes wait") {
    CoordinationDriver driver(settings(3, 3));
    for (const NodeId node : {1, 2, 3}) driver.join(node, "node" + std::to_string(node), 0);
    const auto answer = [&driver](NodeId node, bool are_all_waiting) {
      driver.send(node, Heartbeat{1, 0, {.are_all_waiting = are_all_waiting}}, 1000);
      return driver.sent_to<HeartbeatAnswer>(node).at(0).activity.are_all_waiting;
    };
    CHECK(!answer(1, true));
    CHECK(!answer(2, true));
    CHECK(answer(3, false));
    CHECK(!answer(1, true));
    CHECK(answer(3, true));
    CHECK(answer(1, true));
    CHECK(answer(2, false));
    CHECK(!answer(1, true));
    // Ranks that have ended are not late.
    driver.send(2, WorkersEnded{.round = 0, .have_succeeded = true}, 1000);
    CHECK(answer(1, true));
  }

  TEST_CASE("coordination: the work share of a node counts once for each of its ranks") {
    CoordinationDriver driver(settings(2, 2));
    auto large = driver.join_of("node1");
    large.local_world_size = 3;
    driver.send(1, large, 0);
    driver.join(2, "node2", 0);
    driver.send(2, Heartbeat{1, 0, {.work_share = 500}}, 1000);
    driver.send(1, Heartbeat{1, 0, {.work_share = 900}}, 1000);
    CHECK(driver.sent_to<HeartbeatAnswer>(1).at(0).activity.work_share == 900);
  }

  TEST_CASE("coordination: a wait reported for an earlier round is ignored") {
    auto driver = two_running(settings(2, 2, 1));
    driver.send(1, Heartbeat{1, 0, {std::chrono::milliseconds(1000), 500}}, 2100);
    driver.send(2, WorkersEnded{.round = 0, .failures = {failure("node2")}}, 2200);
    driver.send(1, WorkersEnded{.round = 0}, 2300);
    REQUIRE(driver.sent_to<RoundFormed>(1).size() == 1);
    driver.send(1, Heartbeat{2, 0, {std::chrono::milliseconds(1300), 500}}, 2350);
    driver.send(2, Heartbeat{2}, 2400);
    CHECK(driver.sent_to<HeartbeatAnswer>(2).at(0).activity == RankActivity{});
  }

  TEST_CASE("coordination: failures that blame a peer follow other failures in the outcome") {
    auto driver = two_running(settings(2, 2));
    driver.send(1, WorkersEnded{.round = 0, .failures = {failure("node1", true)}}, 2600);
    driver.send(2, WorkersEnded{.round = 0, .failures = {failure("node2")}}, 2700);
    CHECK(driver.sent_to<Finish>(1)[0].outcome.failures[0].node == "node2");
  }

  TEST_CASE("coordination: a worker that exits with 0 is the cause if all others blame a peer") {
    struct Row {
      std::size_t exits;
      bool is_victim;
      const char* cause;
    };
    for (const Row& row : {Row{1, true, "node1"}, {1, false, "node2"}, {2, true, "node2"}}) {
      CAPTURE(row.exits);
      auto driver = two_running(settings(2, 2));
      driver.send(1,
                  WorkersEnded{.round = 0,
                               .have_succeeded = true,
                               .early_exits = std::vector<Failure>(row.exits, failure("node1"))},
                  2600);
      driver.send(2, WorkersEnded{.round = 0, .failures = {failure("node2", row.is_victim)}}, 2700);
      const auto outcome = driver.sent_to<Finish>(1)[0].outcome;
      CHECK(outcome.failures[0].node == row.cause);
      CHECK(outcome.failures.size() == (row.exits == 1 && row.is_victim ? 2 : 1));
    }
  }

  TEST_CASE("coordination: a worker that exits with 0 is not the cause if a node is lost") {
    RoundFailures failures;
    failures.add(1, {failure("node1", true)}, Time{});
    failures.add_early_exits(2, {failure("node2")});
    CHECK(failures.cause() == "a worker of node2 failed");
    failures.ignore_early_exits();
    CHECK(failures.cause() == "a worker of node1 failed");
  }

  TEST_CASE("coordination: messages about an earlier round are ignored") {
    auto driver = two_running(settings(2, 2, 3));
    driver.send(2, WorkersFailing{0, "x"}, 2100);
    driver.send(1, WorkersEnded{.round = 0}, 2200);
    driver.send(2, WorkersEnded{.round = 0, .failures = {failure("node2")}}, 2300);
    REQUIRE(driver.coordination().round() == 1);
    driver.send(2, WorkersFailing{0, "late"}, 2400);
    CHECK(driver.sent_to<StopWorkers>(1).empty());
    driver.send(2, WorkersEnded{.round = 0, .failures = {failure("node2")}}, 2400);
    CHECK(driver.sent_to<StopWorkers>(1).empty());
  }

  TEST_CASE("coordination: a run succeeds when the workers of all nodes have succeeded") {
    auto driver = two_running(settings(2, 2));
    driver.send(1, WorkersEnded{.round = 0, .have_succeeded = true}, 2500);
    CHECK(driver.sent_to<Finish>(1).empty());
    driver.send(2, WorkersEnded{.round = 0, .have_succeeded = true}, 2600);
    CHECK(driver.sent_to<Finish>(1)[0].outcome.result == RunResult::succeeded);
    driver.gone(1, 2700);
    CHECK_FALSE(driver.coordination().is_over());
    driver.gone(2, 2700);
    CHECK(driver.coordination().is_over());
  }

  TEST_CASE("coordination: the loss of a node uses no restart if enough nodes remain") {
    auto driver = two_running(settings(1, 2));
    driver.gone(2, 2500);
    CHECK(driver.sent_to<StopWorkers>(1)[0].reason == "node2 is lost: its connection was closed");
    driver.send(1, WorkersEnded{.round = 0}, 2600);
    const auto formed = driver.sent_to<RoundFormed>(1);
    REQUIRE(formed.size() == 1);
    CHECK(formed[0].nodes.size() == 1);
    CHECK(formed[0].restarts_used == 0);
  }

  TEST_CASE("coordination: messages distinguish nodes of the same name by their rank") {
    CoordinationDriver driver(settings(1, 2));
    driver.join(1, "vm", 0);
    driver.join(2, "vm", 0);
    const auto rank = std::to_string(driver.sent_to<RoundFormed>(2)[0].node_rank);
    driver.gone(2, 2500);
    CHECK(driver.sent_to<StopWorkers>(1)[0].reason ==
          "vm (node rank " + rank + ") is lost: its connection was closed");
  }

  TEST_CASE("coordination: a silent node counts as lost exactly when its lease expires") {
    auto driver = two_running(settings(1, 2));
    driver.beat({1, 2}, 2000);
    driver.beat({1}, 4999);
    CHECK(driver.sent_to<StopWorkers>(1).empty());
    driver.pass(5000);
    CHECK(driver.sent_to<StopWorkers>(1)[0].reason == "node2 is lost: it was silent for 3 s");
    CHECK(driver.has<CloseConnection>());
  }

  TEST_CASE("coordination: failures caused by a lost node use no restart") {
    auto driver = two_running(settings(1, 2));
    driver.beat({1, 2}, 2000);
    driver.send(1, WorkersFailing{0, "rank 0 failed"}, 2100);
    driver.send(1, WorkersEnded{.round = 0, .failures = {failure("node1")}}, 2200);
    driver.beat({1}, 4000);
    driver.pass(5000);
    REQUIRE(driver.sent_to<RoundFormed>(1).size() == 1);
    CHECK(driver.sent_to<RoundFormed>(1)[0].restarts_used == 0);
  }

  TEST_CASE("coordination: too few remaining nodes wait for a new node before they continue") {
    auto driver = two_running(settings(2, 2));
    driver.gone(2, 2500);
    driver.send(1, WorkersEnded{.round = 0}, 2600);
    CHECK(driver.sent_to<RoundFormed>(1).empty());
    driver.join(3, "node3", 2900);
    REQUIRE(driver.sent_to<RoundFormed>(3).size() == 1);
    CHECK(driver.sent_to<RoundFormed>(3)[0].node_rank == 1);
    CHECK(driver.sent_to<RoundFormed>(1)[0].node_rank == 0);
  }

  TEST_CASE("coordination: a round starts without a leaving node once its workers have ended") {
    auto driver = two_running(settings(1, 2));
    driver.send(2, Leave{"was asked to stop by SIGTERM"}, 2500);
    CHECK(driver.sent_to<StopWorkers>(1)[0].reason ==
          "node2 has left: it was asked to stop by SIGTERM");
    driver.send(1, WorkersEnded{.round = 0}, 2600);
    CHECK(driver.sent_to<RoundFormed>(1).empty());
    driver.send(2, WorkersEnded{.round = 0}, 2700);
    REQUIRE(driver.sent_to<RoundFormed>(1).size() == 1);
    CHECK(driver.sent_to<RoundFormed>(1)[0].nodes.size() == 1);
    CHECK(driver.sent_to<RoundFormed>(1)[0].restarts_used == 0);
  }

  TEST_CASE("coordination: a new node starts a round unless the maximum number is reached") {
    auto driver = two_running(settings(1, 3));
    driver.join(3, "node3", 2100);
    CHECK(driver.sent_to<StopWorkers>(1)[0].reason == "node3 has joined");
    driver.send(1, WorkersEnded{.round = 0}, 2200);
    driver.send(2, WorkersEnded{.round = 0}, 2200);
    CHECK(driver.sent_to<RoundFormed>(3)[0].node_rank == 2);
    driver.join(4, "node4", 2300);
    CHECK(driver.sent_to<StopWorkers>(1).empty());
    CHECK(driver.sent_to<Waiting>(4)[0].text ==
          "the round has 3 nodes of at most 3; this one waits to replace another");
    driver.gone(1, 2400);
    driver.send(2, WorkersEnded{.round = 1}, 2500);
    driver.send(3, WorkersEnded{.round = 1}, 2500);
    CHECK(driver.sent_to<RoundFormed>(2)[0].node_rank == 0);
    CHECK(driver.sent_to<RoundFormed>(3)[0].node_rank == 1);
    CHECK(driver.sent_to<RoundFormed>(4)[0].node_rank == 2);
  }

  TEST_CASE("coordination: a round with successful nodes is not restarted for a new node") {
    auto driver = two_running(settings(1, 3));
    driver.send(1, WorkersEnded{.round = 0, .have_succeeded = true}, 2100);
    driver.join(3, "node3", 2200);
    CHECK(driver.sent_to<StopWorkers>(2).empty());
  }

  TEST_CASE("coordination: a successful node waits for the others for exit_barrier_timeout") {
    auto with = settings(2, 2);
    with.exit_barrier_timeout = 10s;
    auto driver = two_running(with);
    driver.send(1, WorkersEnded{.round = 0, .have_succeeded = true}, 2000);
    driver.beat({2}, 2000);
    for (int now = 3000; now < 12'000; now += 1000) driver.beat({1, 2}, now);
    CHECK(driver.sent_to<Finish>(1).empty());
    driver.pass(12'000);
    REQUIRE(driver.sent_to<Finish>(1).size() == 1);
    CHECK(driver.sent_to<Finish>(1)[0].outcome.scope == OutcomeScope::node);
    CHECK(driver.sent_to<Finish>(1)[0].outcome.reason ==
          "the workers of this node succeeded, and those of others have not ended after 10 s "
          "(exit_barrier_timeout), and may still fail: node2");
    driver.send(2, WorkersEnded{.round = 0, .have_succeeded = true}, 12'500);
    CHECK(driver.sent_to<Finish>(2)[0].outcome.scope == OutcomeScope::run);
    CHECK(driver.sent_to<Finish>(2)[0].outcome.result == RunResult::succeeded);
  }

  TEST_CASE("coordination: a signal to the host ends the run on all nodes with that signal") {
    CoordinationDriver driver(settings(1, 2));
    Join host = driver.join_of("node1");
    host.is_host = true;
    driver.send(1, host, 0);
    driver.join(2, "node2", 0);
    driver.send(1, Leave{"was asked to stop by SIGINT", 2}, 1000);
    REQUIRE(driver.sent_to<StopWorkers>(2).size() == 1);
    CHECK(driver.sent_to<StopWorkers>(2)[0].signal == 2);
    driver.send(1, WorkersEnded{.round = 0}, 1100);
    driver.send(2, WorkersEnded{.round = 0}, 1200);
    const auto outcome = driver.sent_to<Finish>(2)[0].outcome;
    CHECK(outcome.result == RunResult::interrupted);
    CHECK(outcome.signal == 2);
    CHECK(outcome.reason == "node1, which hosts the rendezvous, was asked to stop by SIGINT");
  }

  TEST_CASE("coordination: a worker that cannot be executed ends the run without restarts") {
    auto driver = two_running(settings(2, 2, 3));
    driver.send(1, WorkersEnded{.round = 0, .not_started = "node1: no such file"}, 2100);
    driver.send(2, WorkersEnded{.round = 0}, 2200);
    CHECK(driver.sent_to<Finish>(2)[0].outcome.result == RunResult::not_started);
    CHECK(driver.sent_to<Finish>(2)[0].outcome.reason == "node1: no such file");
  }

  TEST_CASE("coordination: a restarted coordinator gets round and restart count from the nodes") {
    CoordinationDriver driver(settings(2, 2, 5));
    Join join = driver.join_of("a");
    join.last_round = 6;
    join.restarts_used = 2;
    driver.send(1, join, 0);
    driver.join(2, "b", 0);
    CHECK(driver.sent_to<RoundFormed>(2)[0].round == 7);
    CHECK(driver.sent_to<RoundFormed>(2)[0].restarts_used == 2);
  }

  TEST_CASE("coordination: the wait for the nodes to leave at the end is limited") {
    auto driver = two_running(settings(2, 2));
    driver.send(1, WorkersEnded{.round = 0, .have_succeeded = true}, 100);
    driver.send(2, WorkersEnded{.round = 0, .have_succeeded = true}, 200);
    driver.gone(1, 300);
    CHECK(driver.coordination().next_wake() == CoordinationDriver::at(5200));
    driver.pass(5200);
    CHECK(driver.coordination().is_over());
  }

  TEST_CASE("coordination: restarts older than the window do not count") {
    auto with = settings(1, 2, 1);
    with.nodes_max = 1;
    with.restarts.window = 10s;
    CoordinationDriver driver(with);
    driver.join(1, "a", 0);
    driver.send(1, WorkersEnded{.round = 0, .failures = {failure("a")}}, 1000);
    CHECK(driver.sent_to<RoundFormed>(1).size() == 1);
    for (int now = 2000; now < 11'000; now += 1000) driver.beat({1}, now);
    driver.send(1, WorkersEnded{.round = 1, .failures = {failure("a")}}, 11'000);
    CHECK(driver.sent_to<RoundFormed>(1).size() == 1);
    driver.send(1, WorkersEnded{.round = 2, .failures = {failure("a")}}, 12'000);
    CHECK(driver.sent_to<Finish>(1)[0].outcome.reason ==
          "a worker of a failed; the only restart is used");
  }
}

}  // namespace coordination_test
