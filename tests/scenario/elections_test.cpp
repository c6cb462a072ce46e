// Runs of several nodes that find each other through etcd: no node is needed for the others to go
// on, the one that hosts coordinator and store included.
#include "tests/support/cluster.hpp"
#include "tests/support/etcd_server.hpp"
#include "tests/support/skip.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <memory>
#include <string>

using ddprun::test::contains;
using ddprun::test::count;
using ddprun::test::EtcdServer;
using ddprun::test::in_bin;
using ddprun::test::Program;
using ddprun::test::skip;
using ddprun::test::TemporaryFolder;
using ddprun::test::wait_until;
using ddprun::test::write_file;

namespace {

constexpr const char* kNoEtcd = "etcd is not installed (Debian: etcd-server)";
constexpr const char* kHosts = "this node hosts the rendezvous";

/// Says where it is, and waits for the file that lets it succeed.
std::string waiting_for(const std::string& file) {
  return "echo \"rank $RANK of $WORLD_SIZE, restarts $TORCHELASTIC_RESTART_COUNT.\"; "
         "while [ ! -e " +
         file + " ]; do sleep 0.02; done";
}

/// Agents at loopback addresses of their own, which know nothing but etcd.
class Run {
 public:
  Run(std::string endpoints, std::string nnodes, std::string script,
      std::vector<std::string> options = {"--security=open"},
      std::string conf = "last_call_timeout=0.2,lease_timeout=3,etcd_lease_timeout=3")
      : endpoints_(std::move(endpoints)),
        nnodes_(std::move(nnodes)),
        script_(std::move(script)),
        options_(std::move(options)),
        conf_(std::move(conf)) {}

  Program& start(int number, const std::vector<std::string>& more = {}) {
    std::vector<std::string> options = {"--nnodes=" + nnodes_,
                                        "--rdzv_backend=etcd",
                                        "--rdzv_endpoint=" + endpoints_,
                                        "--rdzv_id=run",
                                        "--local_addr=127.0.0." + std::to_string(number),
                                        "--rdzv_conf=" + conf_};
    options.insert(options.end(), options_.begin(), options_.end());
    options.insert(options.end(), more.begin(), more.end());
    nodes_.push_back(std::make_unique<Program>(ddprun::test::launch(options, script_)));
    return *nodes_.back();
  }

  /// This agent has been elected before any other starts.
  Program& start_host(int number) {
    auto& host = start(number);
    REQUIRE(host.read_until_contains(kHosts));
    return host;
  }

 private:
  std::string endpoints_;
  std::string nnodes_;
  std::string script_;
  std::vector<std::string> options_;
  std::string conf_;
  std::vector<std::unique_ptr<Program>> nodes_;
};

/// Three nodes with workers in round 0; the first hosts the rendezvous.
struct Three {
  explicit Three(Run& run) : host(run.start_host(2)), second(run.start(3)), third(run.start(4)) {
    REQUIRE(host.read_until_contains("rank 0 of 3"));
    REQUIRE(second.read_until_contains("rank 1 of 3"));
    REQUIRE(third.read_until_contains("rank 2 of 3"));
  }
  Program& host;
  Program& second;
  Program& third;
};

}  // namespace

TEST_SUITE("elections") {
  TEST_CASE("nodes find each other through etcd, and one of them hosts the store") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    Run run(etcd.endpoint(), "2", "echo \"rank $RANK of $WORLD_SIZE at $MASTER_ADDR;\"");
    auto& first = run.start(2);
    auto& second = run.start(3);
    CHECK(first.wait() == 0);
    CHECK(second.wait() == 0);
    INFO(first.output());
    CHECK(contains(first.output(), "rank 0 of 2 at 127.0.0."));
    CHECK(contains(second.output(), "rank 1 of 2 at 127.0.0."));
    CHECK(count(first.output() + second.output(), kHosts) == 1);
    CHECK(first.leaves_no_process());
    CHECK(second.leaves_no_process());
  }

  TEST_CASE("when the host's agent is killed the others elect another and train on, at no cost") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const TemporaryFolder folder;
    Run run(etcd.endpoint(), "1:3", waiting_for(folder / "done"));
    Three nodes(run);
    nodes.host.signal(SIGKILL);
    REQUIRE(nodes.second.read_until_contains("rank 0 of 2, restarts 0."));
    REQUIRE(nodes.third.read_until_contains("rank 1 of 2, restarts 0."));
    CHECK(nodes.host.wait() == -SIGKILL);
    CHECK(nodes.host.leaves_no_process());
    write_file(folder / "done", "");
    CHECK(nodes.second.wait() == 0);
    CHECK(nodes.third.wait() == 0);
    CHECK(count(nodes.second.output() + nodes.third.output(), kHosts) == 1);
    CHECK(contains(nodes.second.output(), "attempt 1"));
  }

  TEST_CASE("a host whose agent is asked to stop hands the run over, and costs no restart") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const TemporaryFolder folder;
    Run run(etcd.endpoint(), "1:3", waiting_for(folder / "done"));
    Three nodes(run);
    nodes.host.signal(SIGTERM);
    CHECK(nodes.host.wait() == 128 + SIGTERM);
    CHECK(contains(nodes.host.output(), "this node was asked to stop by SIGTERM"));
    REQUIRE(nodes.second.read_until_contains("rank 0 of 2, restarts 0."));
    REQUIRE(nodes.third.read_until_contains("rank 1 of 2, restarts 0."));
    CHECK(nodes.host.leaves_no_process());
    write_file(folder / "done", "");
    CHECK(nodes.second.wait() == 0);
    CHECK(nodes.third.wait() == 0);
  }

  TEST_CASE("a host whose agent is stopped loses its office, and is taken in again later") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const TemporaryFolder folder;
    Run run(etcd.endpoint(), "1:3", waiting_for(folder / "done"), {"--security=open"},
            "last_call_timeout=0.2,lease_timeout=1,etcd_lease_timeout=2");
    Three nodes(run);
    nodes.host.signal(SIGSTOP);
    REQUIRE(nodes.second.read_until_contains("rank 0 of 2, restarts 0."));
    nodes.host.signal(SIGCONT);
    REQUIRE(nodes.host.read_until_contains("this node no longer hosts the rendezvous: "));
    REQUIRE(nodes.host.read_until([](std::string_view output) {
      return count(std::string(output), " of 3, restarts 0.") == 2;
    }));
    write_file(folder / "done", "");
    CHECK(nodes.host.wait() == 0);
    CHECK(nodes.second.wait() == 0);
    CHECK(nodes.third.wait() == 0);
  }

  TEST_CASE("the budget of restarts outlives the host that has counted it") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const TemporaryFolder folder;
    const auto script = waiting_for(folder / "go.$TORCHELASTIC_RESTART_COUNT") +
                        "; [ $RANK = 1 ] || sleep 1000; exit 3";
    Run run(etcd.endpoint(), "1:3", script, {"--security=open", "--max_restarts=1"});
    Three nodes(run);
    write_file(folder / "go.0", "");
    REQUIRE(nodes.host.read_until_contains("rank 0 of 3, restarts 1."));
    nodes.host.signal(SIGKILL);
    REQUIRE(nodes.second.read_until_contains("rank 0 of 2, restarts 1."));
    REQUIRE(nodes.third.read_until_contains("rank 1 of 2, restarts 1."));
    write_file(folder / "go.1", "");
    CHECK(nodes.second.wait() == 1);
    CHECK(nodes.third.wait() == 1);
    CHECK(contains(nodes.second.output(), "no restarts left of 1"));
    CHECK(nodes.host.wait() == -SIGKILL);
  }

  TEST_CASE("a run goes on while etcd is away for less than a lease") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    EtcdServer etcd;
    const TemporaryFolder folder;
    Run run(etcd.endpoint(), "2", waiting_for(folder / "done"), {"--security=open"},
            "last_call_timeout=0.2,etcd_lease_timeout=20,rejoin_timeout=60");
    auto& host = run.start_host(2);
    auto& other = run.start(3);
    REQUIRE(other.read_until_contains("rank 1 of 2"));
    etcd.kill();
    etcd.start();
    write_file(folder / "done", "");
    CHECK(host.wait() == 0);
    CHECK(other.wait() == 0);
    INFO(host.output());
    CHECK(count(host.output(), "rank 0 of 2, restarts") == 1);
  }

  TEST_CASE("while etcd is away for long there is no round, and the run goes on when it is back") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    EtcdServer etcd;
    const TemporaryFolder folder;
    Run run(etcd.endpoint(), "2", waiting_for(folder / "done"));
    auto& host = run.start_host(2);
    auto& other = run.start(3);
    REQUIRE(other.read_until_contains("rank 1 of 2"));
    etcd.kill();
    REQUIRE(host.read_until_contains("this node no longer hosts the rendezvous: etcd at "));
    REQUIRE(other.read_until_contains("the rendezvous is lost"));
    etcd.start();
    const auto again = [](std::string_view output) {
      return count(std::string(output), " of 2, restarts 0.") == 2;
    };
    REQUIRE(host.read_until(again));
    REQUIRE(other.read_until(again));
    write_file(folder / "done", "");
    CHECK(host.wait() == 0);
    CHECK(other.wait() == 0);
  }

  TEST_CASE("a run whose workers succeed while etcd is away ends with success on all nodes") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    EtcdServer etcd;
    const TemporaryFolder folder;
    Run run(etcd.endpoint(), "2", waiting_for(folder / "done"), {"--security=open"},
            "last_call_timeout=0.2,etcd_lease_timeout=4");
    auto& host = run.start_host(2);
    auto& other = run.start(3);
    REQUIRE(other.read_until_contains("rank 1 of 2"));
    etcd.kill();
    write_file(folder / "done", "");
    CHECK(host.wait() == 0);
    CHECK(other.wait() == 0);
  }

  TEST_CASE("without an etcd the run ends at the join timeout, and says what was tried") {
    const auto port = std::to_string(ddprun::test::free_port());
    Run run("127.0.0.1:" + port, "2", "true", {"--security=open"}, "join_timeout=0.5");
    auto& node = run.start(2);
    CHECK(node.wait() == 1);
    const auto problem = "etcd at 127.0.0.1:" + port + ": cannot connect";
    CHECK(contains(node.output(), problem));
    CHECK(contains(node.output(), "; trying again"));
    CHECK(contains(node.output(), "gave up after 0.5 s"));
  }

  TEST_CASE("an etcd that cannot be reached is passed over for the next") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const auto nobody = "127.0.0.1:" + std::to_string(ddprun::test::free_port());
    Run run(nobody + "," + etcd.endpoint(), "2", "true");
    auto& first = run.start(2);
    auto& second = run.start(3);
    CHECK(first.wait() == 0);
    CHECK(second.wait() == 0);
  }

  TEST_CASE("a node that comes after the end hears how the run ended, and all keys vanish") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    Run run(etcd.endpoint(), "1:2", "exit 3", {"--security=open"},
            "last_call_timeout=0.2,lease_timeout=1,etcd_lease_timeout=2,rejoin_timeout=4.5");
    auto& first = run.start(2);
    CHECK(first.wait() == 1);
    CHECK(etcd.keys("/ddprun/run/coordinator").empty());
    auto& late = run.start(3);
    CHECK(late.wait() == 1);
    CHECK(contains(late.output(), "failed with exit code 3 on node 127.0.0.2"));
    CHECK(contains(late.output(), "rank      : 0 on node 127.0.0.2"));
    CHECK_FALSE(contains(late.output(), kHosts));
    CHECK(wait_until([&] { return etcd.keys("/ddprun/").empty(); }));
  }

  TEST_CASE("a run that everybody has left is forgotten at once") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    Run run(etcd.endpoint(), "1:2", "sleep 1000");
    auto& node = run.start_host(2);
    REQUIRE(node.read_until_contains("attempt 0"));
    node.signal(SIGTERM);
    CHECK(node.wait() == 128 + SIGTERM);
    CHECK(etcd.keys("/ddprun/").empty());
  }

  TEST_CASE("a node that means another run cannot take it over") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const TemporaryFolder folder;
    Run run(etcd.endpoint(), "1:2", waiting_for(folder / "done"), {"--security=open"},
            "last_call_timeout=0.2,rejoin_timeout=60");
    auto& host = run.start_host(2);
    REQUIRE(host.read_until_contains("rank 0 of 1"));
    host.signal(SIGKILL);
    CHECK(host.wait() == -SIGKILL);
    REQUIRE(wait_until([&] { return etcd.keys("/ddprun/run/coordinator").empty(); }));
    auto& different = run.start(3, {"--max_restarts=2"});
    CHECK(different.wait() == 1);
    CHECK(contains(different.output(), "refused: --max_restarts is 2 on this node and 0"));
    auto& right = run.start(2);
    REQUIRE(right.read_until_contains("attempt 1"));
    write_file(folder / "done", "");
    CHECK(right.wait() == 0);
  }

  TEST_CASE("a signal ends the search for a coordinator") {
    const auto port = std::to_string(ddprun::test::free_port());
    Run run("127.0.0.1:" + port, "2", "true");
    auto& node = run.start(2);
    REQUIRE(node.read_until_contains("; trying again"));
    node.signal(SIGTERM);
    CHECK(node.wait() == 128 + SIGTERM);
  }

  TEST_CASE("nodes that share a secret elect another host as well") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const TemporaryFolder folder;
    CHECK(ddprun::test::run_program({in_bin("ddprun"), "keygen", folder / "key"}).exit_code == 0);
    Run run(etcd.endpoint(), "1:3", waiting_for(folder / "done"),
            {"--secret_file=" + (folder / "key")});
    Three nodes(run);
    nodes.host.signal(SIGKILL);
    REQUIRE(nodes.second.read_until_contains("rank 0 of 2, restarts 0."));
    write_file(folder / "done", "");
    CHECK(nodes.host.wait() == -SIGKILL);
    CHECK(nodes.second.wait() == 0);
    CHECK(nodes.third.wait() == 0);
  }

  TEST_CASE("the example of a configuration for etcd works on two machines") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const TemporaryFolder folder;
    CHECK(ddprun::test::run_program({in_bin("ddprun"), "keygen", folder / "key"}).exit_code == 0);
    const auto start = [&](int number) {
      return std::make_unique<Program>(ddprun::test::launch(
          {"--config=" DDPRUN_SOURCE_DIR "/configs/etcd.json",
           "--node_name=node" + std::to_string(number), "--rdzv_endpoint=" + etcd.endpoint(),
           "--secret_file=" + (folder / "key"), "--nproc_per_node=1",
           "--local_addr=127.0.0." + std::to_string(number + 1),
           "--rdzv_conf=etcd_lease_timeout=3,last_call_timeout=0.1"},
          "echo \"rank $RANK of $WORLD_SIZE\""));
    };
    const auto first = start(1);
    const auto second = start(2);
    CHECK(first->wait() == 0);
    CHECK(second->wait() == 0);
    CHECK(contains(first->output() + second->output(), "rank 1 of 2"));
  }
}
