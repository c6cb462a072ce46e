#include "rendezvous/membership/failover_state.hpp"

#include "tests/support/coordination_driver.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace failover_state_test {

using namespace ddprun::membership;
using ddprun::test::CoordinationDriver;
using namespace std::chrono_literals;

namespace {

Settings three_nodes() {
  Settings settings{.run_id = "run", .nodes_min = 1, .nodes_max = 3};
  settings.restarts.max_restarts = 3;
  settings.last_call_timeout = 2s;
  return settings;
}

/// Round 4 had a, b and c, coordinated by a.
RunRecord left_by_a() {
  return {.round = 4,
          .rounds_formed = 5,
          .nodes = {{"c", 103}, {"a", 101}, {"b", 102}},
          .host = {"a", 101},
          .restarts = 2,
          .nodes_min = 1,
          .nodes_max = 3,
          .max_restarts = 3};
}

Join member_of_round(const CoordinationDriver& driver, const std::string& name, int round) {
  auto join = driver.join_of(name);
  join.instance = 101 + static_cast<std::uint64_t>(name.front() - 'a');
  join.last_round = round;
  return join;
}

}  // namespace

TEST_SUITE("failover state") {
  TEST_CASE("failover: the next coordinator continues rounds and ranks and the restart count") {
    CoordinationDriver driver(three_nodes(), left_by_a());
    driver.send(1, member_of_round(driver, "b", 4), 100);
    CHECK(driver.sent_to<RoundFormed>(1).empty());
    driver.send(2, member_of_round(driver, "c", 4), 200);
    const auto formed = driver.sent_to<RoundFormed>(1);
    REQUIRE(formed.size() == 1);
    CHECK(formed[0].round == 5);
    CHECK(formed[0].restarts_used == 2);
    CHECK(formed[0].nodes[0].name == "c");
    CHECK(formed[0].nodes[1].name == "b");
    CHECK(formed[0].node_rank == 1);
  }

  TEST_CASE("failover: a round waits for a missing node until the old lease has expired") {
    CoordinationDriver driver(three_nodes(), left_by_a());
    driver.send(1, member_of_round(driver, "b", 4), 100);
    driver.beat({1}, 2000);
    CHECK(driver.coordination().next_wake() == CoordinationDriver::at(3000));
    driver.beat({1}, 2999);
    CHECK(driver.sent_to<RoundFormed>(1).empty());
    driver.pass(3000);
    CHECK(driver.sent_to<RoundFormed>(1).size() == 1);
  }

  TEST_CASE("failover: new nodes do not start a round before old leases expire") {
    CoordinationDriver driver(three_nodes(), left_by_a());
    driver.join(1, "x", 100);
    driver.join(2, "y", 100);
    driver.join(3, "z", 100);
    CHECK(driver.sent_to<RoundFormed>(1).empty());
    driver.beat({1, 2}, 2500);
    driver.send(3, Heartbeat{}, 3000);
    CHECK(driver.sent_to<RoundFormed>(1).size() == 1);
  }

  TEST_CASE("failover: two agents of the same name get different ranks") {
    RunRecord record{.round = 0, .nodes = {{"n", 1}, {"n", 2}}, .host = {"elsewhere", 9}};
    FailoverState succession(record, CoordinationDriver::at(1000));
    CHECK(succession.claim("n", 2) == 1);
    CHECK(succession.not_before(CoordinationDriver::at(0)) == CoordinationDriver::at(1000));
    CHECK(succession.claim("n", 3) == -1);
    CHECK(succession.not_before(CoordinationDriver::at(0)) == CoordinationDriver::at(1000));
    CHECK(succession.claim("n", 1) == 0);
    CHECK_FALSE(succession.not_before(CoordinationDriver::at(0)));
    CHECK(succession.claim("n", 1) == 0);
    CHECK(FailoverState().claim("n", 1) == -1);
  }

  TEST_CASE("failover: a restarted agent keeps its node's rank") {
    RunRecord record{.round = 0, .nodes = {{"a", 1}, {"b", 2}}, .host = {"a", 1}};
    FailoverState succession(record, CoordinationDriver::at(1000));
    CHECK(succession.claim("b", 7) == 1);
    CHECK(succession.not_before(CoordinationDriver::at(0)) == CoordinationDriver::at(1000));
    CHECK(succession.claim("b", 8) == -1);
    CHECK_FALSE(succession.not_before(CoordinationDriver::at(1000)));
  }

  TEST_CASE("failover: a round does not wait for the last host unless the name is ambiguous") {
    struct Row {
      std::vector<PastNode> nodes;
      bool is_waited_for;
    };
    const Row rows[] = {{{{"a", 1}}, false},
                        {{{"a", 1}, {"b", 2}}, true},
                        {{{"a", 1}, {"a", 2}}, true},
                        {{{"a", 2}}, true},
                        {{{"b", 2}}, true}};
    for (const auto& row : rows) {
      const RunRecord record{.round = 0, .nodes = row.nodes, .host = {"a", 1}};
      const FailoverState succession(record, CoordinationDriver::at(1000));
      CHECK(succession.not_before(CoordinationDriver::at(0)).has_value() == row.is_waited_for);
    }
  }

  TEST_CASE("failover: the record contains the age of each recent restart") {
    auto settings = three_nodes();
    settings.restarts.window = 60s;
    RestartHistory history{.restarts = 7, .fast_failures = 1};
    history.recent = {CoordinationDriver::at(1000), CoordinationDriver::at(5000)};
    const auto record = record_of(settings, history, CoordinationDriver::at(6000));
    CHECK(record.restart_ages == std::vector<std::chrono::milliseconds>{5000ms, 1000ms});
    const auto later = history_of(record, CoordinationDriver::at(100'000));
    CHECK(later.recent ==
          decltype(later.recent){CoordinationDriver::at(95'000), CoordinationDriver::at(99'000)});
    CHECK(later.restarts == 7);
    CHECK(later.fast_failures == 1);
  }

  TEST_CASE("failover: the time without a coordinator counts towards the restart window") {
    struct Row {
      std::chrono::milliseconds since_round;
      int round;
      bool may_restart;
    };
    // A restart 1 s before the record was written, 5 s after the round was formed.
    auto record = left_by_a();
    record.since_round = 6s;
    record.restart_ages = {1s};
    const Row rows[] = {
        {2h, 4, true}, {2h, 3, false}, {60s, 4, false}, {67s, 4, true}, {0s, 4, false}};
    for (const auto& row : rows) {
      CAPTURE(row.since_round.count());
      auto settings = three_nodes();
      settings.restarts = {.max_restarts = 1, .window = 60s};
      CoordinationDriver driver(settings, record);
      auto join = member_of_round(driver, "b", row.round);
      join.max_restarts = 1;
      join.since_round = row.since_round;
      driver.send(1, join, 0);
      driver.beat({1}, 2000);
      driver.pass(3000);
      REQUIRE(driver.sent_to<RoundFormed>(1).size() == 1);
      const Failure failure{.ran_seconds = 60, .description = "a worker failed", .node = "b"};
      driver.send(1, WorkersEnded{.round = 5, .failures = {failure}}, 3100);
      CHECK(driver.sent_to<RoundFormed>(1).size() == (row.may_restart ? 1U : 0U));
    }
  }

  TEST_CASE("failover: a record's age is the longest known to any node") {
    auto record = left_by_a();
    record.since_round = 6s;
    record.restart_ages = {1s};
    CoordinationDriver driver(three_nodes(), record);
    for (const int seconds : {100, 50}) {
      auto join = member_of_round(driver, seconds == 100 ? "b" : "c", 4);
      join.since_round = std::chrono::seconds(seconds);
      CHECK(driver.coordination().record().since_round == (seconds == 100 ? 6s : 100s));
      driver.send(static_cast<NodeId>(seconds), join, 0);
    }
    REQUIRE(driver.kept().size() == 1);
    CHECK(driver.kept()[0].record.since_round == 0s);
    CHECK(driver.kept()[0].record.restart_ages == std::vector<std::chrono::milliseconds>{95s});
  }

  TEST_CASE("failover: a round waits for the longest of the old and the new lease") {
    struct Row {
      std::chrono::milliseconds own, former, waited;
    };
    const Row rows[] = {{3s, 3s, 3s}, {3s, 10s, 10s}, {10s, 3s, 10s}};
    for (const auto& row : rows) {
      auto settings = three_nodes();
      settings.lease = row.own;
      auto record = left_by_a();
      record.lease = row.former;
      CoordinationDriver driver(settings, record);
      CHECK(driver.coordination().record().lease == row.waited);
      const int end = static_cast<int>(row.waited.count());
      driver.send(1, member_of_round(driver, "b", 4), end - 2000);
      driver.beat({1}, end - 1);
      CHECK(driver.sent_to<RoundFormed>(1).empty());
      driver.pass(end);
      CHECK(driver.sent_to<RoundFormed>(1).size() == 1);
      CHECK(driver.coordination().record().lease == row.own);
    }
  }

  TEST_CASE("failover: a short join timeout does not shorten the wait for old leases") {
    auto settings = three_nodes();
    settings.join_timeout = 1s;
    CoordinationDriver driver(settings, left_by_a());
    driver.send(1, member_of_round(driver, "b", 4), 0);
    driver.beat({1}, 1500);
    CHECK(driver.coordination().next_wake() == CoordinationDriver::at(3000));
  }

  TEST_CASE("failover: the record is stored before nodes get a round or the outcome") {
    CoordinationDriver driver(three_nodes());
    driver.join(1, "a", 0);
    driver.pass(2000);
    REQUIRE(driver.kept().size() == 1);
    REQUIRE(driver.kept()[0].record.nodes.size() == 1);
    CHECK(driver.kept()[0].record.nodes[0].name == "a");
    CHECK(driver.kept()[0].record.round == 0);
    CHECK(driver.index_of<KeepRecord>() < driver.index_of<SendToNode>());

    const Failure failure{.ran_seconds = 60, .description = "a worker failed", .node = "a"};
    driver.send(1, WorkersEnded{.round = 0, .failures = {failure}}, 2100);
    REQUIRE(driver.kept().size() == 2);  // the restart, and the round that follows at once
    CHECK(driver.kept()[0].record.restarts == 1);
    CHECK(driver.kept()[1].record.round == 1);

    driver.send(1, WorkersEnded{.round = 1, .have_succeeded = true}, 2200);
    REQUIRE(driver.kept().size() == 1);
    CHECK(driver.kept()[0].outcome->result == RunResult::succeeded);
    CHECK(driver.index_of<KeepRecord>() < driver.index_of<SendToNode>());
  }

  TEST_CASE("failover: a leaving host ends the round on all nodes without forming another") {
    CoordinationDriver driver(three_nodes());
    driver.join(1, "a", 0);
    driver.join(2, "b", 0);
    driver.pass(2000);
    driver.host_leaves("a, which hosts the rendezvous, leaves", 2100);
    CHECK(driver.sent_to<StopWorkers>(2)[0].reason == "a, which hosts the rendezvous, leaves");
    CHECK_FALSE(driver.coordination().is_over());
    driver.send(1, WorkersEnded{.round = 0}, 2200);
    CHECK_FALSE(driver.coordination().is_over());
    driver.send(2, WorkersEnded{.round = 0}, 2300);
    CHECK(driver.sent_to<RoundFormed>(2).empty());
    CHECK(driver.coordination().is_over());
    CHECK(driver.coordination().record().restarts == 0);
    CHECK_FALSE(driver.coordination().next_wake());
  }

  TEST_CASE("failover: a host that leaves before the first round does not wait") {
    CoordinationDriver driver(three_nodes());
    driver.join(1, "a", 0);
    driver.host_leaves("a leaves", 100);
    CHECK(driver.coordination().is_over());
    CHECK(driver.coordination().has_nodes());
  }
}

}  // namespace failover_state_test
