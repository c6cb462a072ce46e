// Nodes that reach the coordinator but not each other.
#include "rendezvous/membership/coordination.hpp"
#include "tests/support/membership_talk.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace partial_partition_test {

using namespace ddprun::membership;
using ddprun::test::Talk;
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
      : talk(with) {
    for (const NodeId id : {1, 2, 3}) join(id, names[static_cast<std::size_t>(id) - 1]);
  }

  void join(NodeId id, const std::string& name) {
    auto join = talk.join_of(name);
    join.is_host = id == 1;
    join.probe = {.host = "10.0.0." + std::to_string(id),
                  .port = static_cast<std::uint16_t>(5000 + id)};
    talk.say(id, join, now);
    keep_probe(id);
  }

  /// Each node's unreachable peers; all nodes answer.
  void answer(const std::vector<Indices>& unreachable) {
    const auto number = probe;
    for (std::size_t i = 0; i < unreachable.size(); ++i) {
      answer(static_cast<NodeId>(i + 1), number, unreachable[i]);
    }
  }
  void answer(NodeId id, std::uint32_t number, const Indices& unreachable) {
    talk.say(id, Probed{number, unreachable}, now += 10);
    keep_probe(1);
  }

  void say(NodeId id, const NodeMessage& message) {
    talk.say(id, message, now += 10);
    keep_probe(1);
  }

  void pass(int time) {
    talk.pass(now += time);
    keep_probe(1);
  }

  bool is_probed() const { return !talk.told<Probe>(2).empty(); }

  std::vector<RoundFormed> formed(NodeId id) const { return talk.told<RoundFormed>(id); }

  Talk talk;
  int now = 0;
  std::uint32_t probe = 0;  ///< the latest

 private:
  void keep_probe(NodeId id) {
    for (const auto& told : talk.told<Probe>(id)) probe = told.number;
  }
};

const std::vector<Indices> kAllReached = {{}, {}, {}};
const std::vector<Indices> kTwoAndThreeCut = {{}, {2}, {1}};

WorkersEnded failed(int round, const std::string& node) {
  return {.round = round,
          .failures = {{.is_victim = true, .description = "rank 1 failed", .node = node}}};
}

}  // namespace

TEST_SUITE("partial partition") {
  TEST_CASE("a round is formed when each node has connected to each other one but the host") {
    Trio trio(settings(3, 3));
    const auto probes = trio.talk.told<Probe>(2);
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
    CHECK(trio.talk.told<Waiting>(1).empty());
  }

  TEST_CASE("two nodes, and nodes with probes switched off, begin at once") {
    Talk pair(settings(2, 2));
    auto first = pair.join_of("a");
    first.probe = {.host = "10.0.0.1", .port = 1};
    pair.say(1, first, 0);
    auto second = pair.join_of("b");
    second.probe = {.host = "10.0.0.2", .port = 1};
    pair.say(2, second, 0);
    CHECK(pair.told<RoundFormed>(1).size() == 1);

    auto unprobed = settings(3, 3);
    unprobed.probe_timeout = 0s;
    CHECK(Trio(unprobed).formed(1).size() == 1);
  }

  TEST_CASE("of two nodes that cannot reach each other the later one waits, and all know why") {
    Trio trio(settings(2, 3));
    trio.answer(kTwoAndThreeCut);
    REQUIRE(trio.formed(1).size() == 1);
    CHECK(trio.formed(1)[0].nodes.size() == 2);
    CHECK(trio.formed(2).size() == 1);
    CHECK(trio.formed(3).empty());
    for (const NodeId id : {1, 2, 3}) {
      REQUIRE(trio.talk.told<Waiting>(id).size() == 1);
      CHECK(trio.talk.told<Waiting>(id)[0] ==
            Waiting{"nodes n2 and n3 cannot reach each other; both reach the host: the round "
                    "begins without n3 (probed again every 30 s)",
                    true});
    }
  }

  TEST_CASE("a cut in one direction counts, and both of its ends are named") {
    Trio trio(settings(2, 3));
    trio.answer({{}, {}, {1}});
    CHECK(trio.formed(1)[0].nodes.size() == 2);
    CHECK(trio.talk.told<Waiting>(1)[0].text.starts_with(
        "node n3 cannot reach n2; both reach the host: "));
  }

  TEST_CASE("cut nodes are named and left out in the order of their names, not of their coming") {
    Trio trio(settings(2, 3), {"n1", "n3", "n2"});
    trio.answer(kTwoAndThreeCut);
    CHECK(trio.formed(2).empty());
    CHECK(trio.formed(3).size() == 1);
    CHECK(
        trio.talk.told<Waiting>(1)[0].text.starts_with("nodes n2 and n3 cannot reach each other"));
  }

  TEST_CASE("a run whose nodes cannot form a large enough round ends after two probes") {
    Trio trio(settings(3, 3));
    const auto first = trio.probe;
    trio.answer(kTwoAndThreeCut);
    CHECK(trio.probe == first + 1);
    trio.answer(kTwoAndThreeCut);
    REQUIRE(trio.talk.told<Finish>(2).size() == 1);
    const auto verdict = trio.talk.told<Finish>(2)[0].verdict;
    CHECK(verdict.result == Verdict::Result::no_quorum);
    CHECK(verdict.reason ==
          "nodes n2 and n3 cannot reach each other; both reach the host; a round needs 3 nodes "
          "that can all reach each other, and at most 2 can (--rdzv_conf=probe_timeout=0 disables "
          "this check)");
  }

  TEST_CASE("a run whose second probe finds no cut begins") {
    Trio trio(settings(3, 3));
    trio.answer(kTwoAndThreeCut);
    trio.answer(kAllReached);
    CHECK(trio.formed(3).size() == 1);
  }

  TEST_CASE("workers that fail at a cut cost no restart and are not the root cause") {
    for (const int least : {2, 3}) {
      CAPTURE(least);
      Trio trio(settings(least, 3));
      trio.answer(kAllReached);
      trio.say(3, WorkersFailing{0, "rank 2 failed"});
      CHECK(trio.is_probed());
      for (const NodeId id : {1, 2, 3}) trio.say(id, failed(0, "n" + std::to_string(id)));
      CHECK(trio.talk.told<Finish>(1).empty());
      CHECK(trio.formed(1).empty());
      trio.answer(kTwoAndThreeCut);
      if (least == 2) {
        REQUIRE(trio.formed(1).size() == 1);
        CHECK(trio.formed(1)[0].restarts_used == 0);
        CHECK(trio.formed(1)[0].nodes.size() == 2);
        continue;
      }
      trio.answer(kTwoAndThreeCut);
      REQUIRE(trio.talk.told<Finish>(1).size() == 1);
      CHECK(trio.talk.told<Finish>(1)[0].verdict.failures.empty());
      CHECK(trio.talk.told<Finish>(1)[0].verdict.reason.starts_with(
          "nodes n2 and n3 cannot reach each other"));
    }
  }

  TEST_CASE("workers that fail where all nodes reach each other cost a restart") {
    Trio trio(settings(2, 3, 1));
    trio.answer(kAllReached);
    trio.say(3, WorkersFailing{0, "rank 2 failed"});
    trio.answer(kAllReached);
    for (const NodeId id : {1, 2, 3}) trio.say(id, failed(0, "n" + std::to_string(id)));
    REQUIRE(trio.formed(1).size() == 1);
    CHECK(trio.formed(1)[0].restarts_used == 1);
    CHECK(trio.formed(1)[0].nodes.size() == 3);
  }

  TEST_CASE("a node that does not answer a probe is waited for as long as that takes") {
    Trio trio(settings(2, 3));
    trio.answer(1, trio.probe, {});
    trio.answer(2, trio.probe, {2});
    trio.pass(2979);
    CHECK(trio.formed(1).empty());
    trio.pass(1);
    REQUIRE(trio.formed(1).size() == 1);
    CHECK(trio.formed(1)[0].nodes.size() == 2);
  }

  TEST_CASE("a node that is lost during a probe is not waited for") {
    Trio trio(settings(2, 3));
    trio.answer(1, trio.probe, {});
    trio.answer(2, trio.probe, {2});
    trio.talk.gone(3, trio.now);
    trio.pass(1000);
    REQUIRE(trio.formed(1).size() == 1);
    CHECK(trio.formed(1)[0].nodes.size() == 2);
  }

  TEST_CASE("where no node reaches another the rendezvous alone may be let through: no cut") {
    Trio trio(settings(3, 3));
    trio.answer({{1, 2}, {2}, {1}});
    REQUIRE(trio.formed(1).size() == 1);
    CHECK(trio.formed(1)[0].nodes.size() == 3);
  }

  TEST_CASE("answers to another probe and about other nodes change nothing") {
    Trio trio(settings(3, 3));
    trio.answer(2, trio.probe + 1, {2});
    trio.answer(2, trio.probe - 1, {2});
    CHECK(trio.formed(1).empty());
    trio.answer({{0, 3, 4'000'000'000}, {1}, {0}});
    REQUIRE(trio.formed(1).size() == 1);
    CHECK(trio.formed(1)[0].nodes.size() == 3);
  }

  TEST_CASE("a newcomer that cannot reach a node waits, and joins once it can") {
    Trio trio(settings(2, 4));
    trio.pass(1000);
    trio.answer(kAllReached);
    REQUIRE(trio.formed(1).size() == 1);
    trio.join(4, "n4");
    CHECK(trio.talk.told<StopWorkers>(1).empty());
    trio.answer({{}, {3}, {}, {1}});
    CHECK(trio.talk.told<StopWorkers>(1).empty());
    REQUIRE(trio.talk.told<Waiting>(4).size() == 1);
    CHECK(trio.talk.told<Waiting>(4)[0].text ==
          "nodes n2 and n4 cannot reach each other; both reach the host; the others continue "
          "without this node (probed again every 30 s)");
    CHECK(trio.talk.coordination().next_wake() == Talk::at(trio.now + 30'000));
    trio.pass(30'000);
    CHECK(trio.is_probed());
    trio.answer({{}, {}, {}, {}});
    REQUIRE(trio.talk.told<StopWorkers>(1).size() == 1);
    CHECK(trio.talk.told<StopWorkers>(1)[0] == StopWorkers{0, "n4 has joined", true});
    for (const NodeId id : {1, 2, 3}) trio.say(id, WorkersEnded{.round = 0, .were_asked = true});
    REQUIRE(trio.formed(4).size() == 1);
    CHECK(trio.formed(4)[0].nodes.size() == 4);
  }

  TEST_CASE("a newcomer with which more nodes reach each other ends the round") {
    Trio trio(settings(2, 4));
    trio.pass(1000);
    trio.answer(kTwoAndThreeCut);
    REQUIRE(trio.formed(1)[0].nodes.size() == 2);
    trio.join(4, "n4");
    trio.answer({{}, {2, 3}, {1}, {1}});
    REQUIRE(trio.talk.told<StopWorkers>(1).size() == 1);
    CHECK(trio.talk.told<StopWorkers>(1)[0].reason == "n3, n4 have joined");
  }
}

}  // namespace partial_partition_test
