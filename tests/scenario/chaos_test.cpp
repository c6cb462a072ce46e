// Agents that reach the coordinator over a faulty connection: real agents and workers, and
// invariants that hold for any fault. Workers hold a lock for their rank, so two live workers of a
// rank are detected.
#include "tests/support/chaos_proxy.hpp"
#include "tests/support/cluster.hpp"
#include "tests/support/locked_worker.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <string>

namespace chaos_test {

using namespace ddprun::test;

namespace {

/// A host, and a node behind the proxy, initially without a fault.
class BadLine {
 public:
  explicit BadLine(const std::string& conf = "last_call_timeout=20,lease_timeout=1.2")
      : cluster_("1:2", workers_.script(), {}, conf),
        proxy("127.0.0.9", "127.0.0.2", cluster_.port()),
        host(cluster_.start(2)),
        other(cluster_.start(3, {"--rdzv_endpoint=127.0.0.9:" + std::to_string(proxy.port())})) {}

  /// Waits until both have workers in the same round.
  bool are_together() {
    return rounds_.is_in_round_of(host, 2) && rounds_.is_in_round_of(other, 2);
  }

  /// Discards the rounds so far.
  void forget_rounds() {
    for (auto* node : {&host, &other}) rounds_.forget(*node);
  }

  /// The run ends on both nodes with the same result, and leaves no process.
  void check_end() {
    workers_.open();
    CHECK(host.wait() == 0);
    CHECK(other.wait() == 0);
    CHECK(host.leaves_no_process());
    CHECK(other.leaves_no_process());
    CHECK_FALSE(workers_.has_met_twice());
  }

 private:
  WorkerFolder workers_;
  RoundWatch rounds_;
  Cluster cluster_;

 public:
  ChaosProxy proxy;
  Program& host;
  Program& other;
};

}  // namespace

TEST_SUITE("chaos") {
  TEST_CASE("chaos: a slow connection delays the run but starts no new round") {
    for (const auto fault : {Fault::delay, Fault::dribble}) {
      CAPTURE(static_cast<int>(fault));
      BadLine line("last_call_timeout=20,lease_timeout=10");
      line.proxy.set(fault);
      REQUIRE(line.are_together());
      line.check_end();
      CHECK(line.proxy.connections() == 1);
    }
  }

  TEST_CASE("chaos: a node with a stalled connection is lost and rejoins") {
    for (const auto fault : {Fault::stall, Fault::stall_to, Fault::stall_from}) {
      CAPTURE(static_cast<int>(fault));
      BadLine line;
      REQUIRE(line.are_together());
      line.proxy.set(fault);
      // Both have detected it, and continue separately.
      REQUIRE(line.host.read_until_contains("rank 0 of 1,"));
      REQUIRE(line.other.read_until_contains("the rendezvous is lost: the rendezvous at 127.0.0."));
      REQUIRE(line.other.read_until_contains(" has not answered for 1 s"));
      line.forget_rounds();
      line.proxy.set(Fault::none);
      REQUIRE(line.are_together());
      line.check_end();
    }
  }

  TEST_CASE("chaos: each connection reset starts a new round") {
    BadLine line("last_call_timeout=20,lease_timeout=10");
    for (int resets = 0; resets < 2; ++resets) {
      REQUIRE(line.are_together());
      line.forget_rounds();
      line.proxy.reset_connections();
    }
    REQUIRE(line.are_together());
    line.check_end();
    CHECK_FALSE(contains(line.other.output(), "restart 1"));
  }

  TEST_CASE("chaos: a node whose leave message is delayed counts as left instead of lost") {
    BadLine line("last_call_timeout=20,lease_timeout=10");
    REQUIRE(line.are_together());
    line.proxy.set(Fault::stall);
    line.other.signal(SIGTERM);
    REQUIRE(line.other.read_until_contains("received SIGTERM"));
    line.proxy.set(Fault::none);
    CHECK(line.other.wait() == 128 + SIGTERM);
    REQUIRE(line.host.read_until_contains("rank 0 of 1,"));
    CHECK(contains(line.host.output(), "127.0.0.3 has left: it was asked to stop by SIGTERM"));
    line.host.signal(SIGTERM);
    CHECK(line.host.wait() == 128 + SIGTERM);
    CHECK(line.host.leaves_no_process());
  }
}

}  // namespace chaos_test
