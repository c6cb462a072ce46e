// Nodes that reach the coordinator but not each other.
#include "rendezvous/membership/coordination.hpp"
#include "tests/support/coordination_driver.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace partial_partition_test {

using namespace ddprun::membership;
using ddprun::test::CoordinationDriver;
using namespace std::chrono_literals;

namespace {

using Indices = std::vector<std::uint32_t>;

Settings settings(int least, int most, int max_restarts = 0) {
  Settings result{.run_id = "run", .nodes_min = least, .nodes_max = most};
  result.restarts.max_restarts = max_restarts;
  result.lease = 600s;
  result.last_call_timeout = 1s;
  return result;
}

/// Nodes 1 to 3; node 1 is the host.
class Trio {
 public:
  explicit Trio(const Settings& with, const std::vector<std::string>& names = {"n1", "n2", "n3"})
      : driver(with) {
    for (const NodeId id : {1, 2, 3}) join(id, names[static_cast<std::size_t>(id) - 1]);
  }

  void join(NodeId id, const std::string& name) { join(id, name, "10.0.0." + std::to_string(id)); }
  void join(NodeId id, const std::string& name, const std::string& address) {
    auto join = driver.join_of(name);
    join.is_host = id == 1;
    join.probe = {.host = address, .port = static_cast<std::uint16_t>(5000 + id)};
    driver.send(id, join, now);
    keep_probe(id);
  }

  /// The unreachable peers of each node; all nodes respond.
  void answer(const std::vector<Indices>& unreachable) {
    const auto number = probe;
    for (std::size_t i = 0; i < unreachable.size(); ++i) {
      answer(static_cast<NodeId>(i + 1), number, unreachable[i]);
    }
  }
  void answer(NodeId id, std::uint32_t number, const Indices& unreachable) {
    driver.send(id, Probed{number, unreachable}, now += 10);
    keep_probe(1);
  }

  void send(NodeId id, const NodeMessage& message) {
    driver.send(id, message, now += 10);
    keep_probe(1);
  }

  void pass(int time) {
    driver.pass(now += time);
    keep_probe(1);
  }

  /// Advances the time until nodes are probed again; returns the milliseconds.
  int pass_to_probe() {
    const auto latest = probe;
    const int begin = now;
    while (probe == latest) {
      const auto wake = driver.coordination().next_wake();
      REQUIRE(wake);
      const auto time = *wake - CoordinationDriver::at(now);
      pass(static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(time).count()));
    }
    return now - begin;
  }

  bool is_probed() const { return !driver.sent_to<Probe>(2).empty(); }

  std::vector<RoundFormed> formed(NodeId id) const { return driver.sent_to<RoundFormed>(id); }

  CoordinationDriver driver;
  int now = 0;
  std::uint32_t probe = 0;  ///< the latest

 private:
  void keep_probe(NodeId id) {
    for (const auto& request : driver.sent_to<Probe>(id)) probe = request.number;
  }
};

const std::vector<Indices> kAllReached = {{}, {}, {}};
const std::vector<Indices> kTwoAndThreeCut = {{}, {2}, {1}};

const std::string kShortage =
    "nodes n2 and n3 cannot reach each other; both reach the host; a round needs 3 nodes that can "
    "all reach each other, and at most 2 can";

WorkersEnded failed(int round, const std::string& node) {
  return {.round = round,
          .failures = {{.is_victim = true, .description = "rank 1 failed", .node = node}}};
}

}  // namespace

TEST_SUITE("partial partition") {
  TEST_CASE(
      "partial partition: a round starts when all nodes but the host have probed each other") {
    Trio trio(settings(3, 3));
    const auto probes = trio.driver.sent_to<Probe>(2);
    REQUIRE(probes.size() == 1);
    CHECK(probes[0].timeout == 2s);
    CHECK(probes[0].peers[0].port == 0);
    CHECK(probes[0].peers[1].port == 0);
    CHECK(probes[0].peers[2] == ProbeAddress{"10.0.0.3", 5003});
    trio.answer(1, trio.probe, {});
    trio.answer(2, trio.probe, {});
    CHECK(trio.formed(1).empty());
    trio.answer(3, trio.probe, {});
    REQUIRE(trio.formed(1).size() == 1);
    CHECK(trio.formed(1)[0].nodes.size() == 3);
    CHECK(trio.driver.sent_to<Waiting>(1).empty());
  }

  TEST_CASE("partial partition: runs of two nodes and runs without probes start at once") {
    CoordinationDriver pair(settings(2, 2));
    auto first = pair.join_of("a");
    first.probe = {.host = "10.0.0.1", .port = 1};
    pair.send(1, first, 0);
    auto second = pair.join_of("b");
    second.probe = {.host = "10.0.0.2", .port = 1};
    pair.send(2, second, 0);
    CHECK(pair.sent_to<RoundFormed>(1).size() == 1);

    auto unprobed = settings(3, 3);
    unprobed.probe_timeout = 0s;
    CHECK(Trio(unprobed).formed(1).size() == 1);
  }

  TEST_CASE("partial partition: the later one of two nodes that cannot connect waits") {
    Trio trio(settings(2, 3));
    trio.answer(kTwoAndThreeCut);
    REQUIRE(trio.formed(1).size() == 1);
    CHECK(trio.formed(1)[0].nodes.size() == 2);
    CHECK(trio.formed(2).size() == 1);
    CHECK(trio.formed(3).empty());
    for (const NodeId id : {1, 2, 3}) {
      REQUIRE(trio.driver.sent_to<Waiting>(id).size() == 1);
      CHECK(trio.driver.sent_to<Waiting>(id)[0] ==
            Waiting{"nodes n2 and n3 cannot reach each other; both reach the host: the round "
                    "begins without n3 (probed again every 30 s)",
                    true});
    }
  }

  TEST_CASE("partial partition: a cut in one direction excludes one node and names both") {
    Trio trio(settings(2, 3));
    trio.answer({{}, {}, {1}});
    CHECK(trio.formed(1)[0].nodes.size() == 2);
    CHECK(trio.driver.sent_to<Waiting>(1)[0].text.starts_with(
        "node n3 cannot reach n2; both reach the host: "));
  }

  TEST_CASE("partial partition: of two cut nodes the one with the later name waits") {
    Trio trio(settings(2, 3), {"n1", "n3", "n2"});
    trio.answer({{}, {1}, {2}});  // probes also list nodes in the order of their names
    CHECK(trio.formed(2).empty());
    REQUIRE(trio.formed(3).size() == 1);
    CHECK(trio.driver.sent_to<Waiting>(1)[0].text.starts_with(
        "nodes n2 and n3 cannot reach each other"));
  }

  TEST_CASE("partial partition: too few connected nodes are probed at increasing intervals") {
    auto with = settings(3, 3);
    with.join_timeout = 60s;
    Trio trio(with);
    std::vector<int> pauses;
    const auto first = trio.probe;
    while (trio.driver.sent_to<Finish>(2).empty()) {
      REQUIRE(trio.probe == first + pauses.size());
      trio.answer(kTwoAndThreeCut);
      if (pauses.empty()) {
        for (const NodeId id : {1, 2, 3}) {
          REQUIRE(trio.driver.sent_to<Waiting>(id).size() == 1);
          CHECK(trio.driver.sent_to<Waiting>(id)[0] ==
                Waiting{kShortage + "; probing again for 60 s at most", true});
        }
      }
      if (!trio.driver.sent_to<Finish>(2).empty()) break;
      pauses.push_back(trio.pass_to_probe());
    }
    CHECK(pauses == std::vector<int>{5'000, 10'000, 20'000, 24'880});
    const auto outcome = trio.driver.sent_to<Finish>(2)[0].outcome;
    CHECK(outcome.result == RunResult::no_rendezvous);
    CHECK(outcome.reason == kShortage +
                                "; gave up after 60 s (join_timeout; --rdzv_conf=probe_timeout=0 "
                                "disables this check)");
  }

  TEST_CASE("partial partition: the notice of too few connected nodes is repeated") {
    Trio trio(settings(3, 3));
    trio.answer(kTwoAndThreeCut);
    CHECK(trio.driver.sent_to<Waiting>(2).size() == 1);
    CHECK(trio.driver.sent_to<Waiting>(2)[0].is_warning);
    trio.pass_to_probe();
    trio.answer(kTwoAndThreeCut);
    trio.pass_to_probe();
    trio.answer(kTwoAndThreeCut);
    CHECK(trio.driver.sent_to<Waiting>(2).empty());
    trio.pass(15'000);
    REQUIRE(trio.driver.sent_to<Waiting>(2).size() == 1);
    CHECK(trio.driver.sent_to<Waiting>(2)[0].text.starts_with(kShortage + "; probing again for 5"));
  }

  TEST_CASE("partial partition: the notice of too few connected nodes is sent during a probe") {
    auto with = settings(3, 3);
    with.waiting_notice = 6s;
    Trio trio(with);
    trio.answer(kTwoAndThreeCut);
    CHECK(trio.pass_to_probe() == 5000);
    trio.pass(1000);
    REQUIRE(trio.driver.sent_to<Waiting>(2).size() == 1);
    CHECK(trio.driver.sent_to<Waiting>(2)[0].text.starts_with(kShortage));
    CHECK(trio.driver.sent_to<Waiting>(2)[0].is_warning);
  }

  TEST_CASE("partial partition: a round starts when the partition heals or another node joins") {
    SUBCASE("the cut ends") {
      Trio trio(settings(3, 3));
      trio.answer(kTwoAndThreeCut);
      CHECK(trio.formed(3).empty());
      trio.pass_to_probe();
      trio.answer(kAllReached);
      CHECK(trio.formed(3).size() == 1);
    }
    SUBCASE("another node joins") {
      Trio trio(settings(3, 4));
      trio.pass(1000);
      trio.answer(kTwoAndThreeCut);
      CHECK(trio.formed(1).empty());
      trio.join(4, "n4");
      trio.answer({{}, {2}, {1}, {}});
      REQUIRE(trio.formed(4).size() == 1);
      CHECK(trio.formed(4)[0].nodes.size() == 3);
    }
  }

  TEST_CASE("partial partition: nodes of different address families do not connect to each other") {
    Trio trio(settings(3, 4));
    trio.join(4, "n4", "fd00::4");
    const auto probes = trio.driver.sent_to<Probe>(2);
    REQUIRE(probes.size() == 1);
    CHECK(probes[0].peers[2] == ProbeAddress{"10.0.0.3", 5003});
    CHECK(probes[0].peers[3].port == 0);
    CHECK(trio.driver.sent_to<Probe>(1)[0].peers[3] == ProbeAddress{"fd00::4", 5004});
    CHECK(trio.driver.sent_to<Probe>(4)[0].peers[1].port == 0);
    trio.answer({{}, {3}, {3}, {1, 2}});
    REQUIRE(trio.formed(1).size() == 1);
    CHECK(trio.formed(1)[0].nodes.size() == 4);
  }

  TEST_CASE("partial partition: failures caused by a cut use no restart") {
    for (const int least : {2, 3}) {
      CAPTURE(least);
      Trio trio(settings(least, 3));
      trio.answer(kAllReached);
      trio.send(3, WorkersFailing{0, "rank 2 failed"});
      CHECK(trio.is_probed());
      for (const NodeId id : {1, 2, 3}) trio.send(id, failed(0, "n" + std::to_string(id)));
      CHECK(trio.driver.sent_to<Finish>(1).empty());
      CHECK(trio.formed(1).empty());
      trio.answer(kTwoAndThreeCut);
      if (least == 2) {
        REQUIRE(trio.formed(1).size() == 1);
        CHECK(trio.formed(1)[0].restarts_used == 0);
        CHECK(trio.formed(1)[0].nodes.size() == 2);
        continue;
      }
      CHECK(trio.driver.sent_to<Finish>(1).empty());
      while (trio.driver.sent_to<Finish>(1).empty()) {
        trio.pass_to_probe();
        trio.answer(kTwoAndThreeCut);
      }
      CHECK(trio.driver.sent_to<Finish>(1)[0].outcome.failures.empty());
      CHECK(trio.driver.sent_to<Finish>(1)[0].outcome.reason.starts_with(kShortage));
    }
  }

  TEST_CASE("partial partition: failures while all nodes are connected use a restart") {
    Trio trio(settings(2, 3, 1));
    trio.answer(kAllReached);
    trio.send(3, WorkersFailing{0, "rank 2 failed"});
    trio.answer(kAllReached);
    for (const NodeId id : {1, 2, 3}) trio.send(id, failed(0, "n" + std::to_string(id)));
    REQUIRE(trio.formed(1).size() == 1);
    CHECK(trio.formed(1)[0].restarts_used == 1);
    CHECK(trio.formed(1)[0].nodes.size() == 3);
  }

  TEST_CASE("partial partition: a round waits for missing probe results up to a time limit") {
    Trio trio(settings(2, 3));
    trio.answer(1, trio.probe, {});
    trio.answer(2, trio.probe, {2});
    trio.pass(2979);
    CHECK(trio.formed(1).empty());
    trio.pass(1);
    REQUIRE(trio.formed(1).size() == 1);
    CHECK(trio.formed(1)[0].nodes.size() == 2);
  }

  TEST_CASE("partial partition: a round does not wait for a node lost during the probe") {
    Trio trio(settings(2, 3));
    trio.answer(1, trio.probe, {});
    trio.answer(2, trio.probe, {2});
    trio.driver.gone(3, trio.now);
    trio.pass(1000);
    REQUIRE(trio.formed(1).size() == 1);
    CHECK(trio.formed(1)[0].nodes.size() == 2);
  }

  TEST_CASE("partial partition: a network without any connection between nodes has no cut") {
    Trio trio(settings(3, 3));
    trio.answer({{1, 2}, {2}, {1}});
    REQUIRE(trio.formed(1).size() == 1);
    CHECK(trio.formed(1)[0].nodes.size() == 3);
  }

  TEST_CASE("partial partition: results of other probes or about unknown nodes are ignored") {
    Trio trio(settings(3, 3));
    trio.answer(2, trio.probe + 1, {2});
    trio.answer(2, trio.probe - 1, {2});
    CHECK(trio.formed(1).empty());
    trio.answer({{0, 3, 4'000'000'000}, {1}, {0}});
    REQUIRE(trio.formed(1).size() == 1);
    CHECK(trio.formed(1)[0].nodes.size() == 3);
  }

  TEST_CASE("partial partition: a new node that is cut off waits until it can connect") {
    Trio trio(settings(2, 4));
    trio.pass(1000);
    trio.answer(kAllReached);
    REQUIRE(trio.formed(1).size() == 1);
    trio.join(4, "n4");
    CHECK(trio.driver.sent_to<StopWorkers>(1).empty());
    trio.answer({{}, {3}, {}, {1}});
    CHECK(trio.driver.sent_to<StopWorkers>(1).empty());
    REQUIRE(trio.driver.sent_to<Waiting>(4).size() == 1);
    CHECK(trio.driver.sent_to<Waiting>(4)[0].text ==
          "nodes n2 and n4 cannot reach each other; both reach the host; the others continue "
          "without this node (probed again every 30 s)");
    CHECK(trio.driver.coordination().next_wake() == CoordinationDriver::at(trio.now + 30'000));
    trio.pass(30'000);
    CHECK(trio.is_probed());
    trio.answer({{}, {}, {}, {}});
    REQUIRE(trio.driver.sent_to<StopWorkers>(1).size() == 1);
    CHECK(trio.driver.sent_to<StopWorkers>(1)[0] == StopWorkers{0, "n4 has joined", true});
    for (const NodeId id : {1, 2, 3}) trio.send(id, WorkersEnded{.round = 0, .were_asked = true});
    REQUIRE(trio.formed(4).size() == 1);
    CHECK(trio.formed(4)[0].nodes.size() == 4);
  }

  TEST_CASE("partial partition: a new node ends a round after others succeeded unless cut off") {
    Trio trio(settings(2, 5));
    trio.join(4, "n4");
    trio.pass(1000);
    trio.answer({{}, {}, {}, {}});
    REQUIRE(trio.formed(1).size() == 1);
    for (const NodeId id : {3, 4}) trio.send(id, WorkersEnded{.round = 0, .have_succeeded = true});
    trio.pass(300'000);  // the exit barrier
    REQUIRE(trio.driver.sent_to<Finish>(3).size() == 1);
    trio.join(5, "n5");
    const auto number = trio.probe;
    for (const NodeId id : {1, 2}) trio.answer(id, number, {});
    trio.answer(5, number, {1});
    REQUIRE(trio.driver.sent_to<Waiting>(5).size() == 1);
    CHECK(trio.driver.sent_to<Waiting>(5)[0].text.starts_with("node n5 cannot reach n2;"));
    trio.pass_to_probe();
    for (const NodeId id : {1, 2, 5}) trio.answer(id, number + 1, {});
    CHECK(trio.driver.sent_to<Waiting>(5).empty());
    REQUIRE(trio.driver.sent_to<StopWorkers>(1).size() == 1);
    CHECK(trio.driver.sent_to<StopWorkers>(1)[0].reason == "n5 has joined");
  }

  TEST_CASE("partial partition: nodes that join during a probe take part in the next one") {
    Trio trio(settings(3, 6));
    trio.pass(1000);
    trio.answer(kAllReached);
    REQUIRE(trio.formed(1).size() == 1);
    trio.join(4, "n4");
    const auto first = trio.probe;
    trio.join(5, "n5");
    CHECK(trio.probe == first);
    trio.answer({{}, {}, {}, {}});
    CHECK(trio.probe == first + 1);
    CHECK(trio.driver.sent_to<StopWorkers>(1).empty());
    trio.answer({{}, {}, {}, {}, {}});
    REQUIRE(trio.driver.sent_to<StopWorkers>(1).size() == 1);
    CHECK(trio.driver.sent_to<StopWorkers>(1)[0].reason == "n4, n5 have joined");
  }

  TEST_CASE("partial partition: a round neither probes a delayed node nor waits for it") {
    Trio trio(settings(3, 4, 1));
    for (int i = 0; i < 3; ++i) {
      trio.join(10 + static_cast<NodeId>(i), "n4");
      trio.driver.gone(10 + static_cast<NodeId>(i), trio.now += 10);
    }
    trio.pass(1000);
    trio.answer(kAllReached);
    REQUIRE(trio.formed(1).size() == 1);
    trio.send(2, WorkersFailing{0, "rank 1 failed"});
    trio.answer(kAllReached);
    trio.join(20, "n4");
    for (const NodeId id : {1, 2, 3}) trio.send(id, failed(0, "n" + std::to_string(id)));
    CHECK_FALSE(trio.is_probed());
    REQUIRE(trio.formed(1).size() == 1);
    CHECK(trio.formed(1)[0].nodes.size() == 3);
    CHECK(trio.formed(20).empty());
  }

  TEST_CASE("partial partition: an intermittent cut interrupts the run at growing intervals") {
    Trio trio(settings(2, 3));
    trio.answer(kAllReached);
    std::vector<int> rounds;  // of two nodes
    for (int round = 0; round < 10; round += 2) {
      trio.send(3, WorkersFailing{round, "rank 2 failed"});
      trio.answer(kTwoAndThreeCut);
      for (const NodeId id : {1, 2, 3}) trio.send(id, failed(round, "n" + std::to_string(id)));
      REQUIRE(trio.formed(1).size() == 1);
      CHECK(trio.formed(1)[0].nodes.size() == 2);
      rounds.push_back(trio.pass_to_probe() / 1000);
      trio.answer(kAllReached);
      REQUIRE(trio.driver.sent_to<StopWorkers>(1).size() == 1);
      for (const NodeId id : {1, 2}) {
        trio.send(id, WorkersEnded{.round = round + 1, .were_asked = true});
      }
      trio.answer(kAllReached);
    }
    CHECK(rounds == std::vector<int>{30, 30, 10, 20, 40});
  }

  TEST_CASE("partial partition: a new node that allows a larger connected set ends the round") {
    Trio trio(settings(2, 4));
    trio.pass(1000);
    trio.answer(kTwoAndThreeCut);
    REQUIRE(trio.formed(1)[0].nodes.size() == 2);
    trio.join(4, "n4");
    trio.answer({{}, {2, 3}, {1}, {1}});
    REQUIRE(trio.driver.sent_to<StopWorkers>(1).size() == 1);
    CHECK(trio.driver.sent_to<StopWorkers>(1)[0].reason == "n3, n4 have joined");
  }
}

}  // namespace partial_partition_test
