// Elected hosts on a network with partial failures: etcd and the other nodes can be reachable
// independently. Machines are network namespaces; the last one has etcd.
#include "tests/support/elected_run.hpp"
#include "tests/support/etcd_server.hpp"
#include "tests/support/network.hpp"
#include "tests/support/skip.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace elections_network_test {

using namespace ddprun::test;

namespace {

constexpr int kEtcd = 4;
constexpr const char* kLost = "the rendezvous is lost";
constexpr const char* kOutOfOffice = "this node no longer hosts the rendezvous: ";

/// Three nodes in a round; the first hosts the rendezvous.
class Machines {
 public:
  Machines() : network(kEtcd) {
    is_there_ = EtcdServer::is_installed() && network.is_there();
    if (!is_there_) return;
    const auto client = network.address(kEtcd) + ":2379";
    const auto peer = network.address(kEtcd) + ":2380";
    programs_[kEtcd] = std::make_unique<Program>(
        network.on(kEtcd, etcd_command("e", client, peer, "e=http://" + peer, folder_ / "data")));
    for (const int number : {1, 2, 3}) {
      programs_[number] = std::make_unique<Program>(network.on(number, agent(number)));
      if (number == 1) REQUIRE((*this)[1].read_until_contains(kHosts));
    }
    REQUIRE(are_together({1, 2, 3}));
  }

  /// Logs a message if not.
  bool is_there() const {
    if (!is_there_) skip("needs etcd (Debian: etcd-server) and network namespaces");
    return is_there_;
  }

  Program& operator[](int number) { return *programs_[number]; }

  /// Waits until exactly these nodes have workers in the same round, since rounds were discarded.
  bool are_together(const std::vector<int>& numbers) {
    for (const int number : numbers) {
      if (!rounds_.is_in_round_of((*this)[number], static_cast<int>(numbers.size()))) return false;
    }
    return true;
  }
  void forget_rounds() {
    for (const int number : {1, 2, 3}) rounds_.forget((*this)[number]);
  }

  /// Returns false if that is not possible here; then skips the test and waits for the run's end.
  bool part(int number, const std::vector<int>& others) {
    forget_rounds();
    if (network.part(number, others)) return true;
    skip("there is no nft (package nftables)");
    check_end({1, 2, 3});
    return false;
  }
  void reunite(int number, const std::vector<int>& others) {
    forget_rounds();
    network.reunite(number, others);
  }

  void check_end(const std::vector<int>& numbers) {
    workers_.open();
    for (const int number : numbers) {
      CHECK((*this)[number].wait() == 0);
      CHECK((*this)[number].leaves_no_process());
    }
    CHECK_FALSE(workers_.has_met_twice());
  }

  std::string worker(int rank) const { return workers_.pid_of(rank); }

 private:
  std::vector<std::string> agent(int number) const {
    return launch({"--nnodes=1:3", "--rdzv_backend=etcd", "--security=open",
                   "--rdzv_endpoint=" + network.address(kEtcd) + ":2379", "--rdzv_id=parted",
                   "--local_addr=" + network.address(number),
                   "--rdzv_conf=last_call_timeout=0.2,lease_timeout=2,etcd_lease_timeout=3,"
                   "rejoin_timeout=60"},
                  workers_.script());
  }

  TemporaryFolder folder_;
  WorkerFolder workers_;
  RoundWatch rounds_;

 public:
  Network network;

 private:
  std::map<int, std::unique_ptr<Program>> programs_;
  bool is_there_ = false;
};

}  // namespace

TEST_SUITE("elections on a network") {
  TEST_CASE("elections: a host cut off only from etcd loses its term and the others continue") {
    Machines nodes;
    if (!nodes.is_there() || !nodes.part(1, {kEtcd})) return;
    const auto worker = nodes.worker(0);
    REQUIRE(nodes[1].read_until_contains(kOutOfOffice));
    REQUIRE(nodes.are_together({2, 3}));
    CHECK(is_gone(worker));

    nodes.reunite(1, {kEtcd});
    REQUIRE(nodes.are_together({1, 2, 3}));
    nodes.check_end({1, 2, 3});
  }

  TEST_CASE("elections: a host cut off from all nodes except etcd continues alone") {
    Machines nodes;
    if (!nodes.is_there() || !nodes.part(1, {2, 3})) return;
    const std::vector<std::string> workers = {nodes.worker(1), nodes.worker(2)};
    REQUIRE(nodes.are_together({1}));
    for (const auto& worker : workers) CHECK(is_gone(worker));
    for (const int other : {2, 3}) REQUIRE(nodes[other].read_until_contains(kLost));

    nodes.reunite(1, {2, 3});
    REQUIRE(nodes.are_together({1, 2, 3}));
    nodes.check_end({1, 2, 3});
  }

  TEST_CASE("elections: a node cut off from etcd rejoins when etcd is reachable again") {
    Machines nodes;
    if (!nodes.is_there() || !nodes.part(2, {kEtcd})) return;
    nodes[1].signal(SIGKILL);
    CHECK(nodes[1].wait() == -SIGKILL);
    CHECK(nodes[1].leaves_no_process());
    REQUIRE(nodes[2].read_until_contains(kLost));
    REQUIRE(nodes.are_together({3}));

    nodes.reunite(2, {kEtcd});
    REQUIRE(nodes.are_together({2, 3}));
    nodes.check_end({2, 3});
  }
}

}  // namespace elections_network_test
