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
      std::vector<std::string> options = {},
      std::string conf = "last_call_timeout=0.2,lease_timeout=5,etcd_lease_timeout=2")
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
                                        "--security=open",
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
}
