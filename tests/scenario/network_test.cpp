// Runs of several nodes on a network with failures. Workers hold a lock for their rank, so two live
// workers of a rank are detected on any machine.
#include "tests/support/network.hpp"

#include "tests/support/cluster.hpp"
#include "tests/support/locked_worker.hpp"
#include "tests/support/skip.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace network_test {

using namespace ddprun::test;

namespace {

constexpr const char* kNoNft = "there is no nft (package nftables)";

struct NodesOptions {
  std::string nnodes;
  std::string lease = "1.5";     ///< seconds; more if no node should be lost even on a busy machine
  bool are_2_and_3_cut = false;  ///< from each other, from the start
  std::string join_timeout = "600";  ///< seconds
};

/// A machine for each node; the first hosts the rendezvous.
class Nodes {
 public:
  explicit Nodes(int number) : Nodes(number, {.nnodes = "1:" + std::to_string(number)}) {}
  Nodes(int number, const NodesOptions& options) : network(number), options_(options) {
    if (!network.is_there()) return;
    if (options.are_2_and_3_cut && !network.part(2, {3})) {
      skip(kNoNft);
      return;
    }
    is_there_ = true;
    const auto secret_file = make_secret(workers_.folder() / "secret");
    for (int i = 1; i <= number; ++i) {
      // Also contains leftovers of agents that are killed with their guardians.
      const std::map<std::string, std::string> environment = {
          {"TMPDIR", workers_.folder().path().string()}};
      programs_.push_back(
          std::make_unique<Program>(network.on(i, agent(i, secret_file)), environment));
    }
  }

  bool is_there() const { return is_there_; }

  Program& operator[](int number) { return *programs_[static_cast<std::size_t>(number) - 1]; }

  /// Waits until exactly these nodes have workers in the same round.
  bool are_together(const std::vector<int>& numbers) {
    const int size = static_cast<int>(numbers.size());
    return std::all_of(numbers.begin(), numbers.end(),
                       [&](int number) { return rounds_.is_in_round_of((*this)[number], size); });
  }

  /// Discards the rounds so far.
  void forget_rounds() {
    for (const auto& program : programs_) rounds_.forget(*program);
  }

  /// Identity of the worker of that rank.
  std::string worker(int rank) const { return workers_.pid_of(rank); }

  /// Kills all processes of the machine at once, like a loss of power.
  void kill_all(int number) {
    for (const pid_t pid : (*this)[number].descendants()) ::kill(pid, SIGKILL);
    (*this)[number].signal(SIGKILL);
    CHECK((*this)[number].wait() == -SIGKILL);
    CHECK((*this)[number].leaves_no_process());
  }

  void check_end(const std::vector<int>& numbers) {
    workers_.open();
    for (const int number : numbers) {
      const int status = (*this)[number].wait();
      INFO("node ", number, ": ", (*this)[number].output());
      CHECK(status == 0);
      CHECK((*this)[number].leaves_no_process());
    }
    CHECK_FALSE(workers_.has_met_twice());
  }

 private:
  std::vector<std::string> agent(int number, const std::string& secret_file) const {
    return launch(
        {"--nnodes=" + options_.nnodes, "--rdzv_backend=c10d",
         "--rdzv_endpoint=" + network.address(1) + ":29400", "--rdzv_id=cut",
         "--local_addr=" + network.address(number), "--secret_file=" + secret_file,
         "--rdzv_conf=last_call_timeout=30,rejoin_timeout=60,probe_timeout=4,lease_timeout=" +
             options_.lease + ",join_timeout=" + options_.join_timeout},
        workers_.script());
  }

  WorkerFolder workers_;
  RoundWatch rounds_;

 public:
  Network network;

 private:
  NodesOptions options_;
  bool is_there_ = false;
  std::vector<std::unique_ptr<Program>> programs_;
};

bool is_permitted(const Nodes& nodes) {
  if (!nodes.network.is_there()) skip("network namespaces are not permitted here");
  return nodes.is_there();
}

/// Of nodes 2 and 3.
std::string cut_line(const Nodes& nodes) {
  return "nodes " + nodes.network.address(2) + " and " + nodes.network.address(3) +
         " cannot reach each other; both reach the host";
}

}  // namespace

TEST_SUITE("network") {
  TEST_CASE("network: a node that is cut off stops its workers and rejoins later") {
    Nodes nodes(2);
    if (!is_permitted(nodes)) return;
    REQUIRE(nodes.are_together({1, 2}));
    const auto worker = nodes.worker(1);

    nodes.network.cut(2);
    REQUIRE(nodes.are_together({1}));
    CHECK(contains(nodes[1].output(),
                   nodes.network.address(2) + " is lost: it was silent for 1.5 s"));
    CHECK(is_gone(worker));
    REQUIRE(nodes[2].read_until_contains(" has not answered for"));

    nodes.forget_rounds();
    nodes.network.mend(2);
    REQUIRE(nodes.are_together({1, 2}));
    nodes.check_end({1, 2});
  }

  TEST_CASE("network: a node that can only send is treated as cut off") {
    Nodes nodes(2);
    if (!is_permitted(nodes)) return;
    REQUIRE(nodes.are_together({1, 2}));
    const auto worker = nodes.worker(1);

    if (!nodes.network.deafen(2)) {
      skip(kNoNft);
      return nodes.check_end({1, 2});
    }
    REQUIRE(nodes.are_together({1}));
    CHECK(contains(nodes[1].output(), nodes.network.address(2) + " is lost: "));
    CHECK(is_gone(worker));
    REQUIRE(nodes[2].read_until_contains(" has not answered for"));

    nodes.forget_rounds();
    nodes.network.cure(2);
    REQUIRE(nodes.are_together({1, 2}));
    nodes.check_end({1, 2});
  }

  TEST_CASE("network: a host cut off from all nodes continues alone and they rejoin") {
    Nodes nodes(3);
    if (!is_permitted(nodes)) return;
    REQUIRE(nodes.are_together({1, 2, 3}));
    const std::vector<std::string> workers = {nodes.worker(1), nodes.worker(2)};

    nodes.network.cut(1);
    REQUIRE(nodes.are_together({1}));
    for (const auto& worker : workers) CHECK(is_gone(worker));
    for (const int node : {2, 3})
      REQUIRE(nodes[node].read_until_contains("the rendezvous is lost"));

    nodes.forget_rounds();
    nodes.network.mend(1);
    REQUIRE(nodes.are_together({1, 2, 3}));
    nodes.check_end({1, 2, 3});
  }

  TEST_CASE("network: one of two nodes that cannot connect waits while the others continue") {
    Nodes nodes(3, {.nnodes = "2:3", .lease = "30", .are_2_and_3_cut = true});
    if (!is_permitted(nodes)) return;
    REQUIRE(nodes.are_together({1, 2}));
    for (const int node : {1, 2, 3}) {
      REQUIRE(nodes[node].read_until_contains(cut_line(nodes) + ": the round begins without " +
                                              nodes.network.address(3)));
    }
    nodes.check_end({1, 2, 3});
  }

  TEST_CASE("network: a failure at a cut uses no restart and the next round avoids the cut") {
    Nodes nodes(3, {.nnodes = "2:3", .lease = "30"});
    if (!is_permitted(nodes)) return;
    REQUIRE(nodes.are_together({1, 2, 3}));
    const auto worker = nodes.worker(2);
    nodes.forget_rounds();
    if (!nodes.network.part(2, {3})) {
      skip(kNoNft);
      return nodes.check_end({1, 2, 3});
    }
    ::kill(std::stoi(worker), SIGKILL);
    REQUIRE(nodes.are_together({1, 2}));
    CHECK(contains(nodes[1].output(), cut_line(nodes)));
    nodes.check_end({1, 2, 3});
  }

  TEST_CASE("network: a run that requires two nodes cut from each other starts once they connect") {
    Nodes nodes(3, {.nnodes = "3", .lease = "30", .are_2_and_3_cut = true});
    if (!is_permitted(nodes)) return;
    for (const int node : {1, 2, 3}) {
      REQUIRE(nodes[node].read_until_contains(
          cut_line(nodes) + "; a round needs 3 nodes that can all reach each other"));
    }
    nodes.network.reunite(2, {3});
    REQUIRE(nodes.are_together({1, 2, 3}));
    nodes.check_end({1, 2, 3});
  }

  TEST_CASE("network: a run that requires both nodes of a cut names them in the final error") {
    Nodes nodes(3, {.nnodes = "3", .lease = "30", .are_2_and_3_cut = true, .join_timeout = "20"});
    if (!is_permitted(nodes)) return;
    for (const int node : {1, 2, 3}) {
      const int status = nodes[node].wait();
      INFO("node ", node, ": ", nodes[node].output());
      CHECK(status == 1);
      CHECK(contains(nodes[node].output(), cut_line(nodes)));
      CHECK(contains(nodes[node].output(), "gave up after 20 s (join_timeout"));
      CHECK_FALSE(contains(nodes[node].output(), "Root cause"));
      CHECK(nodes[node].leaves_no_process());
    }
  }

  TEST_CASE("network: the store of an open run serves only machines of the run's nodes") {
    Network network(3);
    if (!network.is_there()) return skip("network namespaces are not permitted here");
    const TemporaryFolder folder;
    const auto node = [&](int number) {
      return std::make_unique<Program>(network.on(
          number, launch({"--nnodes=2", "--rdzv_backend=c10d", "--security=open", "--rdzv_id=open",
                          "--rdzv_endpoint=" + network.address(1) + ":29400",
                          "--local_addr=" + network.address(number)},
                         "echo ready; while [ ! -e " + (folder / "done") +
                             " ]; do sleep 0.02; "
                             "done")));
    };
    // A request for the number of keys in the old dialect, with a response of eight bytes.
    const std::string script =
        "import socket\n"
        "client = socket.create_connection(('" +
        network.address(1) +
        "', 29400), 20)\n"
        "client.sendall(b'\\x06')\n"
        "print(len(client.recv(8)), 'bytes')\n";
    const auto answer = [&](int number) {
      Program client(network.on(number, {"python3", "-c", script}));
      client.wait();
      return client.output();
    };
    const auto host = node(1);
    const auto other = node(2);
    REQUIRE(host->read_until_contains("ready"));
    REQUIRE(other->read_until_contains("ready"));
    CHECK(answer(1) == "8 bytes\n");
    CHECK(answer(2) == "8 bytes\n");
    CHECK(answer(3) == "0 bytes\n");
    REQUIRE(host->read_until_contains("refused a connection from " + network.address(3) +
                                      ", which is not the address of a node of this run"));
    write_file(folder / "done", "");
    CHECK(host->wait() == 0);
    CHECK(other->wait() == 0);
  }

  TEST_CASE("network: a machine that disappears does not stop the other nodes") {
    Nodes nodes(3);
    if (!is_permitted(nodes)) return;
    REQUIRE(nodes.are_together({1, 2, 3}));
    nodes.network.cut(3);
    nodes.kill_all(3);
    REQUIRE(nodes.are_together({1, 2}));
    nodes.check_end({1, 2});
  }
}

}  // namespace network_test
