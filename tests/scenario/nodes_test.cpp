// Runs of several nodes with faults: real agents at loopback addresses, real workers.
#include "tests/support/cluster.hpp"
#include "tests/support/locked_worker.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <string>

namespace nodes_test {

using ddprun::test::Cluster;
using ddprun::test::contains;
using ddprun::test::count;
using ddprun::test::Program;
using ddprun::test::read_file;
using ddprun::test::RoundWatch;
using ddprun::test::TemporaryFolder;
using ddprun::test::wait_until;
using ddprun::test::write_file;

namespace {

/// Reports its rank, and waits for the file that lets it succeed.
std::string waiting_for(const std::string& file) {
  return "echo \"rank $RANK of $WORLD_SIZE, node $GROUP_RANK of $GROUP_WORLD_SIZE,"
         " restarts $TORCHELASTIC_RESTART_COUNT.\"; while [ ! -e " +
         file + " ]; do sleep 0.02; done";
}

/// The lines of the report.
std::string report_in(const std::string& output) {
  const auto begin = output.find("\n====");
  const auto end = output.rfind("====\n");
  return begin == std::string::npos ? "" : output.substr(begin, end - begin);
}

/// Two nodes, both with workers in round 0; the first hosts the rendezvous.
struct Pair {
  explicit Pair(Cluster& cluster) : host(cluster.start(2)), other(cluster.start(3)) {
    REQUIRE(host.read_until_contains("rank 0 of 2, node 0 of 2"));
    REQUIRE(other.read_until_contains("rank 1 of 2, node 1 of 2"));
  }
  Program& host;
  Program& other;
};

}  // namespace

TEST_SUITE("nodes") {
  TEST_CASE("nodes: ranks are correct even if nodes have different numbers of workers") {
    Cluster cluster("2",
                    "echo \"$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE "
                    "$GROUP_RANK/$GROUP_WORLD_SIZE $ROLE_RANK/$ROLE_WORLD_SIZE "
                    "$MASTER_ADDR:$MASTER_PORT;\"");
    auto& second = cluster.start(10, {"--nproc_per_node=1"});
    auto& first = cluster.start(2, {"--nproc_per_node=2"});
    CHECK(first.wait() == 0);
    CHECK(second.wait() == 0);
    const std::string at = "store at 127.0.0.2:";
    const auto line = first.output().substr(first.output().rfind(at) + at.size());
    const auto store = " 127.0.0.2:" + line.substr(0, line.find('\n')) + ";";
    CHECK(contains(first.output(), "0/3 0/2 0/2 0/3" + store));
    CHECK(contains(first.output(), "1/3 1/2 0/2 1/3" + store));
    CHECK(contains(second.output(), "2/3 0/1 1/2 2/3" + store));
    CHECK(first.leaves_no_process());
    CHECK(second.leaves_no_process());
  }

  TEST_CASE("nodes: --node_rank overrides the order of node names") {
    Cluster cluster("2", "echo \"rank $RANK\"");
    const std::vector<std::string> common = {"--rdzv_backend=static", "--master_addr=127.0.0.2",
                                             "--master_port=" + std::to_string(cluster.port())};
    auto with_rank = [&](const char* rank) {
      auto options = common;
      options.emplace_back(std::string("--node_rank=") + rank);
      return options;
    };
    auto& host = cluster.start(2, with_rank("1"));
    auto& other = cluster.start(3, with_rank("0"));
    CHECK(host.wait() == 0);
    CHECK(other.wait() == 0);
    CHECK(contains(host.output(), "rank 1"));
    CHECK(contains(other.output(), "rank 0"));
  }

  TEST_CASE("nodes: a failure on one node restarts the workers of all nodes once") {
    Cluster cluster("2",
                    "echo \"rank $RANK, restarts $TORCHELASTIC_RESTART_COUNT.\"; "
                    "[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0; "
                    "[ $RANK = 1 ] && exit 3; sleep 1000",
                    {"--max_restarts=1"});
    auto& host = cluster.start(2);
    auto& other = cluster.start(3);
    CHECK(host.wait() == 0);
    CHECK(other.wait() == 0);
    CHECK(contains(host.output(), "rank 0, restarts 1."));
    CHECK(contains(other.output(), "rank 1, restarts 1."));
    CHECK(contains(host.output(), "failed with exit code 3 on node 127.0.0.3; restart 1 of 1"));
    CHECK(host.leaves_no_process());
    CHECK(other.leaves_no_process());
  }

  TEST_CASE("nodes: all nodes report rank and node of the root cause") {
    Cluster cluster("2", "[ $RANK = 1 ] || sleep 1000; echo oh dear >&2; exit 3");
    auto& host = cluster.start(2);
    auto& other = cluster.start(3);
    CHECK(host.wait() == 1);
    CHECK(other.wait() == 1);
    const auto report = report_in(host.output());
    CHECK(report == report_in(other.output()));
    CHECK(contains(report, "rank      : 1 on node 127.0.0.3"));
    CHECK(contains(report, "exit code 3"));
    CHECK(contains(report, "| oh dear"));
  }

  TEST_CASE("nodes: all nodes can exit with the root cause's exit code") {
    Cluster cluster("2", "[ $RANK = 1 ] && exit 7; sleep 1000", {"--exit_code=worker"});
    auto& host = cluster.start(2);
    auto& other = cluster.start(3);
    CHECK(host.wait() == 7);
    CHECK(other.wait() == 7);
  }

  TEST_CASE("nodes: the other nodes continue without using a restart after an agent is killed") {
    const TemporaryFolder folder;
    Cluster cluster("1:2", waiting_for(folder / "done"));
    Pair pair(cluster);
    pair.other.signal(SIGKILL);
    // A worker's line and the agent's own use different pipes, and arrive in any order.
    REQUIRE(pair.host.read_until_contains("rank 0 of 1, node 0 of 1, restarts 0."));
    INFO(pair.host.output());
    CHECK(pair.host.read_until_contains("127.0.0.3 is lost: its connection"));
    CHECK(pair.other.wait() == -SIGKILL);
    CHECK(pair.other.leaves_no_process());
    write_file(folder / "done", "");
    CHECK(pair.host.wait() == 0);
  }

  TEST_CASE("nodes: a node whose agent is suspended loses its rank and can rejoin later") {
    const TemporaryFolder folder;
    Cluster cluster("1:2", waiting_for(folder / "done"), {},
                    "last_call_timeout=0.2,lease_timeout=1");
    Pair pair(cluster);
    pair.other.signal(SIGSTOP);
    REQUIRE(pair.host.read_until_contains("rank 0 of 1, node 0 of 1"));
    CHECK(contains(pair.host.output(), "127.0.0.3 is lost: it was silent for 1 s"));
    // Its workers have exited before: only the guardian is left.
    CHECK(wait_until([&] { return pair.other.descendants().size() == 1; }));
    RoundWatch rounds;
    for (auto* node : {&pair.host, &pair.other}) rounds.forget(*node);
    pair.other.signal(SIGCONT);
    for (auto* node : {&pair.host, &pair.other}) REQUIRE(rounds.is_in_round_of(*node, 2));
    write_file(folder / "done", "");
    CHECK(pair.host.wait() == 0);
    CHECK(pair.other.wait() == 0);
  }

  TEST_CASE("nodes: Ctrl-Z does not suspend a node of a run with several nodes") {
    const TemporaryFolder folder;
    Cluster cluster("1:2", waiting_for(folder / "done"));
    Pair pair(cluster);
    pair.other.signal(SIGTSTP);
    REQUIRE(pair.other.read_until_contains("received SIGTSTP: not suspended"));
    write_file(folder / "done", "");
    CHECK(pair.host.wait() == 0);
    CHECK(pair.other.wait() == 0);
    CHECK_FALSE(contains(pair.host.output(), "is lost"));
  }

  TEST_CASE("nodes: a node that is asked to stop leaves without using a restart") {
    const TemporaryFolder folder;
    Cluster cluster("1:2", waiting_for(folder / "done"));
    Pair pair(cluster);
    pair.other.signal(SIGTERM);
    CHECK(pair.other.wait() == 128 + SIGTERM);
    CHECK(pair.other.leaves_no_process());
    REQUIRE(pair.host.read_until_contains("rank 0 of 1, node 0 of 1, restarts 0."));
    CHECK(contains(pair.host.output(), "127.0.0.3 has left: it was asked to stop by SIGTERM"));
    write_file(folder / "done", "");
    CHECK(pair.host.wait() == 0);
  }

  TEST_CASE("nodes: a new node joins if there is room and otherwise becomes a spare") {
    const TemporaryFolder folder;
    Cluster cluster("1:2", waiting_for(folder / "done"));
    auto& host = cluster.start(2);
    REQUIRE(host.read_until_contains("rank 0 of 1, node 0 of 1"));
    auto& second = cluster.start(3);
    REQUIRE(second.read_until_contains("rank 1 of 2, node 1 of 2, restarts 0."));
    auto& spare = cluster.start(4);
    REQUIRE(spare.read_until_contains("this one waits to replace another"));
    second.signal(SIGKILL);
    REQUIRE(spare.read_until_contains("rank 1 of 2, node 1 of 2, restarts 0."));
    write_file(folder / "done", "");
    CHECK(host.wait() == 0);
    CHECK(spare.wait() == 0);
    CHECK(second.wait() == -SIGKILL);
  }

  TEST_CASE("nodes: other nodes end with the reason after the host is killed") {
    const TemporaryFolder folder;
    Cluster cluster("1:2", waiting_for(folder / "done"), {},
                    "last_call_timeout=0.2,lease_timeout=5,rejoin_timeout=0.5");
    Pair pair(cluster);
    pair.host.signal(SIGKILL);
    CHECK(pair.other.wait() == 1);
    CHECK(contains(pair.other.output(), "the rendezvous is lost"));
    CHECK(contains(pair.other.output(), "the rendezvous was lost ("));
    CHECK(contains(pair.other.output(), "; gave up after 0.5 s (rejoin_timeout)"));
    CHECK(pair.other.leaves_no_process());
    CHECK(pair.host.wait() == -SIGKILL);
    CHECK(pair.host.leaves_no_process());
  }

  TEST_CASE("nodes: the other nodes rejoin a restarted host") {
    const TemporaryFolder folder;
    Cluster cluster("2", waiting_for(folder / "done"));
    Pair pair(cluster);
    pair.host.signal(SIGKILL);
    REQUIRE(pair.other.read_until_contains("the rendezvous is lost"));
    auto& host = cluster.start(2);
    REQUIRE(host.read_until_contains("rank 0 of 2, node 0 of 2"));
    CHECK(contains(host.output(), "attempt 1: node 0 of 2"));
    write_file(folder / "done", "");
    CHECK(host.wait() == 0);
    CHECK(pair.other.wait() == 0);
    CHECK(pair.host.wait() == -SIGKILL);
  }

  TEST_CASE("nodes: a host that is asked to stop ends the run on all nodes") {
    const TemporaryFolder folder;
    Cluster cluster("1:2", waiting_for(folder / "done"));
    Pair pair(cluster);
    pair.host.signal(SIGINT);
    CHECK(pair.host.wait() == 128 + SIGINT);
    CHECK(pair.other.wait() == 128 + SIGINT);
    const std::string reason = "127.0.0.2, which hosts the rendezvous, was asked to stop by SIGINT";
    CHECK(contains(pair.host.output(), reason));
    CHECK(contains(pair.other.output(), reason));
    CHECK(pair.other.leaves_no_process());
  }

  TEST_CASE("nodes: a run with missing nodes ends at the join timeout with a list of nodes") {
    Cluster cluster("2", "true", {}, "join_timeout=0.5");
    auto& host = cluster.start(2);
    CHECK(host.wait() == 1);
    CHECK(contains(host.output(),
                   "only 1 of at least 2 nodes joined within 0.5 s (join_timeout): 127.0.0.2"));
  }

  TEST_CASE("nodes: a node of another run is rejected with the differing setting") {
    Cluster cluster("2", "true");
    auto& host = cluster.start(2);
    REQUIRE(host.read_until_contains("hosts the rendezvous"));
    auto& stranger = cluster.start(3, {"--rdzv_id=other"});
    CHECK(stranger.wait() == 1);
    CHECK(contains(stranger.output(),
                   "the run (--rdzv_id) is 'other' on the node that joins and 'cluster'"));
    auto& different = cluster.start(4, {"--max_restarts=2"});
    CHECK(different.wait() == 1);
    CHECK(contains(different.output(), "--max_restarts is 2 on the node that joins and 0"));
    auto& right = cluster.start(5);
    CHECK(right.wait() == 0);
    CHECK(host.wait() == 0);
  }

  TEST_CASE("nodes: only nodes with the same configuration file form a run") {
    const auto file = std::string(DDPRUN_SOURCE_DIR) + "/configs/two_nodes.json";
    const TemporaryFolder folder;
    auto text = read_file(file);
    text.replace(text.find("--epochs=8"), 10, "--epochs=9");
    write_file(folder / "changed.json", text);
    const ddprun::test::FreePort port;
    const auto secret_file = ddprun::test::make_secret(folder / "secret");
    const auto start = [&](const std::string& config, int number) {
      return Program(ddprun::test::launch(
          {"--config=" + config, "--node_name=node" + std::to_string(number), "--nproc_per_node=1",
           "--master_addr=127.0.0.2", "--master_port=" + port.text(),
           "--secret_file=" + secret_file, "--local_addr=127.0.0." + std::to_string(number + 1)},
          "echo \"rank $RANK of $WORLD_SIZE\""));
    };
    auto host = start(file, 1);
    REQUIRE(host.read_until_contains("hosts the rendezvous"));
    auto changed = start(folder / "changed.json", 2);
    CHECK(changed.wait() == 1);
    CHECK(contains(changed.output(), "it differs first in job.command[2]\n"));
    auto same = start(file, 2);
    CHECK(same.wait() == 0);
    CHECK(host.wait() == 0);
    CHECK(contains(same.output(), "rank 1 of 2"));
  }

  TEST_CASE("nodes: an unknown host name is looked up again until a signal") {
    Cluster cluster("2", "true");
    auto& host = cluster.start(2, {"--rdzv_endpoint=no-such-host.invalid:29400"});
    REQUIRE(host.read_until_contains("cannot look up no-such-host.invalid"));
    host.signal(SIGTERM);
    CHECK(host.wait() == 128 + SIGTERM);
    CHECK(contains(host.output(), "this node was asked to stop by SIGTERM"));
  }

  TEST_CASE("nodes: agents can start before the host") {
    Cluster cluster("3", "true");
    auto& third = cluster.start(4);
    auto& second = cluster.start(3);
    REQUIRE(second.read_until_contains("meeting the other nodes of run cluster at 127.0.0.2:"));
    auto& host = cluster.start(2);
    CHECK(host.wait() == 0);
    CHECK(second.wait() == 0);
    CHECK(third.wait() == 0);
  }
}

}  // namespace nodes_test
