// Runs with an etcd cluster of three members, some of which are lost. An agent knows the endpoints
// of all three and may use any of them.
#include "tests/support/elected_run.hpp"
#include "tests/support/etcd_server.hpp"
#include "tests/support/skip.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <string>

namespace etcd_cluster_test {

using namespace ddprun::test;

namespace {

// Longer than etcd needs to elect another leader, even on a loaded machine.
constexpr const char* kLongLeases =
    "last_call_timeout=0.2,lease_timeout=10,etcd_lease_timeout=20,rejoin_timeout=60";
constexpr const char* kShortLeases = "last_call_timeout=0.2,lease_timeout=3,etcd_lease_timeout=3";

/// Two nodes in a round; the first is the host.
struct Two {
  Two(const EtcdCluster& etcd, const char* conf)
      : run(etcd.endpoints(), "1:3", workers.script(), {"--security=open"}, conf),
        host(run.start_host(2)),
        other(run.start(3)) {
    REQUIRE(rounds.is_in_round_of(host, 2));
    REQUIRE(rounds.is_in_round_of(other, 2));
  }

  void check_end(std::initializer_list<Program*> nodes) {
    workers.open();
    for (auto* node : nodes) CHECK(node->wait() == 0);
    run.check_that_nothing_is_left(workers);
  }

  WorkerFolder workers;
  RoundWatch rounds;
  ElectedRun run;
  Program& host;
  Program& other;
};

}  // namespace

TEST_SUITE("cluster of etcd") {
  TEST_CASE("etcd cluster: the loss of one member does not affect a run") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    for (const bool is_leader : {false, true}) {
      CAPTURE(is_leader);
      EtcdCluster etcd;
      Two nodes(etcd, kLongLeases);
      const int leader = etcd.leader();
      etcd[is_leader ? leader : (leader + 1) % 3].kill();
      // It finds the host, which is possible with the other members only.
      auto& newcomer = nodes.run.start(4);
      for (auto* node : {&nodes.host, &nodes.other, &newcomer}) {
        REQUIRE(nodes.rounds.is_in_round_of(*node, 3));
      }
      nodes.check_end({&nodes.host, &nodes.other, &newcomer});
      CHECK_FALSE(contains(nodes.host.output(), "no longer hosts the rendezvous"));
      CHECK_FALSE(contains(nodes.other.output(), "the rendezvous is lost"));
    }
  }

  TEST_CASE("etcd cluster: a run continues after the loss of host and etcd leader") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    EtcdCluster etcd;
    Two nodes(etcd, kShortLeases);
    etcd[etcd.leader()].kill();
    nodes.host.signal(SIGKILL);
    CHECK(nodes.host.wait() == -SIGKILL);
    REQUIRE(nodes.rounds.is_in_round_of(nodes.other, 1));
    CHECK(contains(nodes.other.output(), kHosts));
    nodes.check_end({&nodes.other});
  }

  TEST_CASE("etcd cluster: a run resumes when a majority of members is available again") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    EtcdCluster etcd;
    Two nodes(etcd, kShortLeases);
    const int leader = etcd.leader();
    etcd[leader].kill();
    etcd[(leader + 1) % 3].kill();
    REQUIRE(nodes.host.read_until_contains("this node no longer hosts the rendezvous: etcd at "));
    REQUIRE(nodes.other.read_until_contains("the rendezvous is lost"));
    for (auto* node : {&nodes.host, &nodes.other}) nodes.rounds.forget(*node);
    etcd.start(leader);
    for (auto* node : {&nodes.host, &nodes.other}) REQUIRE(nodes.rounds.is_in_round_of(*node, 2));
    nodes.check_end({&nodes.host, &nodes.other});
  }

  TEST_CASE("etcd cluster: a member that does not respond is skipped") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    EtcdCluster etcd;
    Two nodes(etcd, kLongLeases);
    // The first endpoint that agents try: it accepts connections and does not respond.
    etcd[0].signal(SIGSTOP);
    auto& newcomer = nodes.run.start(4);
    for (auto* node : {&nodes.host, &nodes.other, &newcomer}) {
      REQUIRE(nodes.rounds.is_in_round_of(*node, 3));
    }
    nodes.check_end({&nodes.host, &nodes.other, &newcomer});
    etcd[0].signal(SIGCONT);
  }
}

}  // namespace etcd_cluster_test
