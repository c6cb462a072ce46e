// Nodes that repeatedly join and are lost.
#include "rendezvous/membership/flapping_nodes.hpp"

#include "tests/support/coordination_driver.hpp"

#include <doctest/doctest.h>

#include <string>

namespace flapping_nodes_test {

using namespace ddprun::membership;
using ddprun::test::CoordinationDriver;
using namespace std::chrono_literals;

namespace {

Settings settings(int least, int most) {
  Settings result{.run_id = "run", .nodes_min = least, .nodes_max = most};
  result.lease = 600s;
  result.join_timeout = 3600s;
  return result;
}

/// A run of a and b which c joins `stays` times, for a second each.
class Visited {
 public:
  explicit Visited(int least, int stays) : driver(settings(least, 3)) {
    driver.join(1, "a", 0);
    driver.join(2, "b", 0);
    driver.pass(30'000);
    for (int i = 0; i < stays; ++i) {
      come();
      end_round();
      now += 1000;
      driver.gone(visitor, now);
      end_round();
    }
  }

  void come() { driver.join(++visitor, "c", now += 10); }

  /// Ends the workers that are asked to stop.
  void end_round() {
    for (const NodeId node : {NodeId{1}, NodeId{2}, visitor}) {
      driver.send(node, WorkersEnded{.round = driver.coordination().round(), .were_asked = true},
                  now);
    }
  }

  CoordinationDriver driver;
  NodeId visitor = 10;
  int now = 30'000;
};

}  // namespace

TEST_SUITE("flapping nodes") {
  TEST_CASE("flapping nodes: repeated short stays cause growing delays up to 300 s") {
    const std::chrono::milliseconds expected[] = {0s, 0s, 0s, 10s, 20s, 40s, 80s, 160s, 300s, 300s};
    FlappingNodes stays;
    for (const auto time : expected) {
      CHECK(stays.hold_back("c") == time);
      stays.note("c", CoordinationDriver::at(0), CoordinationDriver::at(299'999));
    }
    CHECK(stays.count("c") == 10);
    CHECK(stays.hold_back("d") == 0s);
  }

  TEST_CASE("flapping nodes: a long stay resets the delay") {
    FlappingNodes stays;
    for (int i = 0; i < 5; ++i)
      stays.note("c", CoordinationDriver::at(0), CoordinationDriver::at(0));
    stays.note("c", CoordinationDriver::at(0), CoordinationDriver::at(300'000));
    CHECK(stays.count("c") == 0);
  }

  TEST_CASE("flapping nodes: the oldest entries are dropped beyond the limit") {
    FlappingNodes stays;
    for (int i = 0; i <= static_cast<int>(kStaysKept); ++i) {
      stays.note("n" + std::to_string(i), CoordinationDriver::at(i), CoordinationDriver::at(i));
    }
    CHECK(stays.count("n0") == 0);
    CHECK(stays.count("n1") == 1);
    CHECK(stays.count("n" + std::to_string(kStaysKept)) == 1);
  }

  TEST_CASE("flapping nodes: losses while the coordinator was stopped are not counted") {
    auto of_short_leases = settings(2, 3);
    of_short_leases.lease = 60s;
    CoordinationDriver driver(of_short_leases);
    NodeId id = 0;
    int now = 0;
    for (int i = 0; i < 5; ++i, now += 100'000) {
      for (const char* name : {"a", "b", "c"}) driver.join(++id, name, now);
      driver.gone(id, now + 90'000);  // no message of any node for longer than a lease
      CHECK_FALSE(driver.coordination().has_nodes());
    }
    for (const char* name : {"a", "b", "c"}) driver.join(++id, name, now);
    // The third node joins the round of the first two.
    CHECK(driver.sent_to<StopWorkers>(id - 2).size() == 1);
  }

  TEST_CASE("flapping nodes: a flapping node does not repeatedly interrupt rounds") {
    Visited run(2, kFreeShortStays);
    run.come();  // once more without consequence
    CHECK(run.driver.sent_to<StopWorkers>(1).size() == 1);
    run.end_round();
    run.driver.gone(run.visitor, run.now);
    run.end_round();
    const int round = run.driver.coordination().round();

    run.come();
    CHECK(run.driver.sent_to<StopWorkers>(1).empty());
    REQUIRE(run.driver.sent_to<Waiting>(run.visitor).size() == 1);
    CHECK(run.driver.sent_to<Waiting>(run.visitor)[0].text ==
          "this node has joined and left, or was excluded because of a cut, 3 times in a row, each "
          "time within 300 s; the other nodes continue without it for up to 10 s before it may "
          "rejoin");
    CHECK(run.driver.coordination().next_wake() == CoordinationDriver::at(run.now + 10'000));
    // Nor does it join a round that starts meanwhile for another reason.
    run.driver.send(2, Leave{"was asked to stop by SIGTERM"}, run.now);
    run.driver.send(1, WorkersEnded{.round = round, .were_asked = true}, run.now);
    run.driver.send(2, WorkersEnded{.round = round, .were_asked = true}, run.now);
    CHECK(run.driver.coordination().round() == round + 1);
  }

  TEST_CASE("flapping nodes: a delayed node joins when its delay ends") {
    Visited run(2, kFreeShortStays + 1);
    run.come();
    run.driver.pass(run.now + 9999);
    CHECK(run.driver.sent_to<StopWorkers>(1).empty());
    run.now += 10'000;
    run.driver.pass(run.now);
    REQUIRE(run.driver.sent_to<StopWorkers>(1).size() == 1);
    CHECK(run.driver.sent_to<StopWorkers>(1)[0].reason == "c has joined");
    run.driver.send(1, WorkersEnded{.round = run.driver.coordination().round()}, run.now);
    run.driver.send(2, WorkersEnded{.round = run.driver.coordination().round()}, run.now);
    CHECK(run.driver.sent_to<RoundFormed>(run.visitor).size() == 1);
  }

  TEST_CASE("flapping nodes: a required node is never delayed") {
    CoordinationDriver driver(settings(2, 2));
    driver.join(1, "a", 0);
    for (int i = 0; i < 10; ++i) {
      const NodeId c = 10 + static_cast<NodeId>(i);
      driver.join(c, "c", 1000 * i);
      CHECK(driver.sent_to<RoundFormed>(c).size() == 1);
      driver.gone(c, 1000 * i + 10);
      driver.send(1, WorkersEnded{.round = i}, 1000 * i + 20);
    }
  }
}

}  // namespace flapping_nodes_test
