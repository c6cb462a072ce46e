// Runs of several nodes with etcd: any node can be lost without ending the run, including the host
// of coordinator and store.
#include "tests/support/certificates.hpp"
#include "tests/support/elected_run.hpp"
#include "tests/support/etcd_server.hpp"
#include "tests/support/free_port.hpp"
#include "tests/support/skip.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <link.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>

namespace elections_test {

using namespace ddprun::test;

namespace {

/// The node that hosts the rendezvous is killed; the others elect another host and succeed.
void check_loss_of_host(ElectedRun& run, const WorkerFolder& workers) {
  Three nodes(run);
  nodes.host.signal(SIGKILL);
  REQUIRE(nodes.second.read_until_contains("rank 0 of 2, restarts 0."));
  workers.open();
  CHECK(nodes.host.wait() == -SIGKILL);
  CHECK(nodes.second.wait() == 0);
  CHECK(nodes.third.wait() == 0);
  run.check_that_nothing_is_left(workers);
}

}  // namespace

TEST_SUITE("elections") {
  TEST_CASE("elections: nodes elect a host for the store through etcd") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    ElectedRun run(etcd.endpoint(), "2", "echo \"rank $RANK of $WORLD_SIZE at $MASTER_ADDR;\"");
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

  TEST_CASE("elections: a killed host is replaced without using a restart") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const WorkerFolder workers;
    ElectedRun run(etcd.endpoint(), "1:3", workers.script());
    Three nodes(run);
    nodes.host.signal(SIGKILL);
    REQUIRE(nodes.second.read_until_contains("rank 0 of 2, restarts 0."));
    REQUIRE(nodes.third.read_until_contains("rank 1 of 2, restarts 0."));
    CHECK(nodes.host.wait() == -SIGKILL);
    workers.open();
    CHECK(nodes.second.wait() == 0);
    CHECK(nodes.third.wait() == 0);
    CHECK(contains(nodes.second.output() + nodes.third.output(), kHosts));
    CHECK(contains(nodes.second.output(), "attempt 1"));
    run.check_that_nothing_is_left(workers);
  }

  TEST_CASE("elections: a host that is asked to stop hands over without using a restart") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const WorkerFolder workers;
    ElectedRun run(etcd.endpoint(), "1:3", workers.script());
    Three nodes(run);
    nodes.host.signal(SIGTERM);
    CHECK(nodes.host.wait() == 128 + SIGTERM);
    CHECK(contains(nodes.host.output(), "this node was asked to stop by SIGTERM"));
    REQUIRE(nodes.second.read_until_contains("rank 0 of 2, restarts 0."));
    REQUIRE(nodes.third.read_until_contains("rank 1 of 2, restarts 0."));
    workers.open();
    CHECK(nodes.second.wait() == 0);
    CHECK(nodes.third.wait() == 0);
    run.check_that_nothing_is_left(workers);
  }

  TEST_CASE("elections: a leaving host replaces a damaged record in etcd") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const WorkerFolder workers;
    ElectedRun run(etcd.endpoint(), "1:3", workers.script());
    Three nodes(run);
    etcd.put("/ddprun/run/record", "damaged");
    nodes.host.signal(SIGTERM);
    CHECK(nodes.host.wait() == 128 + SIGTERM);
    REQUIRE(nodes.second.read_until_contains("rank 0 of 2, restarts 0."));
    REQUIRE(nodes.third.read_until_contains("rank 1 of 2, restarts 0."));
    workers.open();
    CHECK(nodes.second.wait() == 0);
    CHECK(nodes.third.wait() == 0);
    run.check_that_nothing_is_left(workers);
  }

  TEST_CASE("elections: a host rewrites a damaged record in etcd when a node joins") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const WorkerFolder workers;
    ElectedRun run(etcd.endpoint(), "1:2", workers.script());
    auto& host = run.start_host(2);
    REQUIRE(host.read_until_contains("rank 0 of 1, restarts 0."));
    etcd.put("/ddprun/run/record", "damaged");
    auto& joining = run.start(3);
    REQUIRE(joining.read_until_contains("rank 1 of 2, restarts 0."));
    const auto records = etcd.keys("/ddprun/run/record");
    REQUIRE(records.size() == 1);
    CHECK_FALSE(contains(records.front(), "damaged"));
    workers.open();
    CHECK(host.wait() == 0);
    CHECK(joining.wait() == 0);
    run.check_that_nothing_is_left(workers);
  }

  TEST_CASE("elections: a suspended host loses its term and can rejoin later") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const WorkerFolder workers;
    ElectedRun run(etcd.endpoint(), "1:3", workers.script(), {"--security=open"},
                   "last_call_timeout=0.2,lease_timeout=1,etcd_lease_timeout=2");
    Three nodes(run);
    nodes.host.signal(SIGSTOP);
    REQUIRE(nodes.second.read_until_contains("rank 0 of 2, restarts 0."));
    RoundWatch rounds;
    rounds.forget(nodes.host);
    nodes.host.signal(SIGCONT);
    REQUIRE(nodes.host.read_until_contains("this node no longer hosts the rendezvous: "));
    REQUIRE(rounds.is_in_round_of(nodes.host, 3));
    workers.open();
    CHECK(nodes.host.wait() == 0);
    CHECK(nodes.second.wait() == 0);
    CHECK(nodes.third.wait() == 0);
    run.check_that_nothing_is_left(workers);
  }

  TEST_CASE("elections: a new host keeps the number of used restarts") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const WorkerFolder workers;
    const auto script = workers.script("go.$TORCHELASTIC_RESTART_COUNT",
                                       "[ $RANK = 1 ] || sleep 1000 9>&-; exit 3");
    ElectedRun run(etcd.endpoint(), "1:3", script, {"--security=open", "--max_restarts=1"});
    Three nodes(run);
    workers.open("go.0");
    REQUIRE(nodes.host.read_until_contains("rank 0 of 3, restarts 1."));
    nodes.host.signal(SIGKILL);
    REQUIRE(nodes.second.read_until_contains("rank 0 of 2, restarts 1."));
    REQUIRE(nodes.third.read_until_contains("rank 1 of 2, restarts 1."));
    workers.open("go.1");
    CHECK(nodes.second.wait() == 1);
    CHECK(nodes.third.wait() == 1);
    CHECK(contains(nodes.second.output(), "the only restart is used"));
    CHECK(nodes.host.wait() == -SIGKILL);
    run.check_that_nothing_is_left(workers);
  }

  TEST_CASE("elections: a run continues if etcd is unavailable for less than a lease") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    EtcdServer etcd;
    const WorkerFolder workers;
    ElectedRun run(etcd.endpoint(), "2", workers.script(), {"--security=open"},
                   "last_call_timeout=0.2,etcd_lease_timeout=20,rejoin_timeout=60");
    auto& host = run.start_host(2);
    auto& other = run.start(3);
    REQUIRE(other.read_until_contains("rank 1 of 2"));
    etcd.kill();
    etcd.start();
    workers.open();
    CHECK(host.wait() == 0);
    CHECK(other.wait() == 0);
    INFO(host.output());
    CHECK(count(host.output(), "rank 0 of 2, restarts") == 1);
    run.check_that_nothing_is_left(workers);
  }

  TEST_CASE("elections: a run resumes when etcd is available again after a lease") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    EtcdServer etcd;
    const WorkerFolder workers;
    ElectedRun run(etcd.endpoint(), "2", workers.script());
    auto& host = run.start_host(2);
    auto& other = run.start(3);
    REQUIRE(other.read_until_contains("rank 1 of 2"));
    etcd.kill();
    REQUIRE(host.read_until_contains("this node no longer hosts the rendezvous: etcd at "));
    REQUIRE(other.read_until_contains("the rendezvous is lost"));
    RoundWatch rounds;
    for (auto* node : {&host, &other}) rounds.forget(*node);
    etcd.start();
    for (auto* node : {&host, &other}) REQUIRE(rounds.is_in_round_of(*node, 2));
    workers.open();
    CHECK(host.wait() == 0);
    CHECK(other.wait() == 0);
    run.check_that_nothing_is_left(workers);
  }

  TEST_CASE("elections: a run that succeeds while etcd is unavailable succeeds on all nodes") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    EtcdServer etcd;
    const WorkerFolder workers;
    ElectedRun run(etcd.endpoint(), "2", workers.script(), {"--security=open"},
                   "last_call_timeout=0.2,etcd_lease_timeout=10");
    auto& host = run.start_host(2);
    auto& other = run.start(3);
    REQUIRE(other.read_until_contains("rank 1 of 2"));
    etcd.kill();
    workers.open();
    CHECK(host.wait() == 0);
    CHECK(other.wait() == 0);
    run.check_that_nothing_is_left(workers);
  }

  TEST_CASE("elections: a run without etcd ends at the join timeout and lists the attempts") {
    const FreePort port;
    ElectedRun run("127.0.0.1:" + port.text(), "2", "true", {"--security=open"},
                   "join_timeout=0.5");
    auto& node = run.start(2);
    CHECK(node.wait() == 1);
    const auto problem = "etcd at 127.0.0.1:" + port.text() + ": cannot connect";
    CHECK(contains(node.output(), problem));
    CHECK(contains(node.output(), "; trying again"));
    CHECK(contains(node.output(), "gave up after 0.5 s"));
  }

  TEST_CASE("elections: the next endpoint is used if etcd is unreachable") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const FreePort nobody;
    ElectedRun run("127.0.0.1:" + nobody.text() + "," + etcd.endpoint(), "2", "true");
    auto& first = run.start(2);
    auto& second = run.start(3);
    CHECK(first.wait() == 0);
    CHECK(second.wait() == 0);
  }

  TEST_CASE("elections: a late node gets the outcome before the keys expire") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    ElectedRun run(etcd.endpoint(), "1:2", "exit 3", {"--security=open"},
                   "last_call_timeout=0.2,lease_timeout=1,etcd_lease_timeout=2,rejoin_timeout=4.5");
    auto& first = run.start(2);
    CHECK(first.wait() == 1);
    CHECK(etcd.keys("/ddprun/run/coordinator").empty());
    auto& late = run.start(3);
    CHECK(late.wait() == 1);
    CHECK(contains(late.output(), "failed with exit code 3 on node 127.0.0.2"));
    const auto report_of = [](const Program& node) {
      const auto begin = node.output().find("====");
      return begin == std::string::npos ? std::string() : node.output().substr(begin);
    };
    CHECK(contains(report_of(first), "rank      : 0 on node 127.0.0.2 (local_rank: 0, pid: "));
    CHECK(contains(report_of(first), "ended     : exit code 3"));
    CHECK(report_of(late) == report_of(first));
    CHECK_FALSE(contains(late.output(), kHosts));
    CHECK(wait_until([&] { return etcd.keys("/ddprun/").empty(); }));
  }

  TEST_CASE("elections: the keys of a run are deleted when the last node leaves") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    ElectedRun run(etcd.endpoint(), "1:2", "sleep 1000");
    auto& node = run.start_host(2);
    REQUIRE(node.read_until_contains("attempt 0"));
    node.signal(SIGTERM);
    CHECK(node.wait() == 128 + SIGTERM);
    CHECK(etcd.keys("/ddprun/").empty());
  }

  TEST_CASE("elections: a node of another run cannot take over the run") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const WorkerFolder workers;
    ElectedRun run(etcd.endpoint(), "1:2", workers.script(), {"--security=open"},
                   "last_call_timeout=0.2,rejoin_timeout=60");
    auto& host = run.start_host(2);
    REQUIRE(host.read_until_contains("rank 0 of 1"));
    host.signal(SIGKILL);
    CHECK(host.wait() == -SIGKILL);
    REQUIRE(wait_until([&] { return etcd.keys("/ddprun/run/coordinator").empty(); }));
    auto& different = run.start(3, {"--max_restarts=2"});
    CHECK(different.wait() == 1);
    CHECK(contains(different.output(), "--max_restarts is 2 on the node that joins and 0"));
    auto& right = run.start(2);
    REQUIRE(right.read_until_contains("attempt 1"));
    workers.open();
    CHECK(right.wait() == 0);
    run.check_that_nothing_is_left(workers);
  }

  TEST_CASE("elections: a differing configuration is reported even without a coordinator") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const TemporaryFolder folder;
    const std::string file = DDPRUN_SOURCE_DIR "/configs/etcd.json";
    auto text = read_file(file);
    text.replace(text.find("--epochs=20"), 11, "--epochs=21");
    write_file(folder / "changed.json", text);
    CHECK(run_program({in_bin("ddprun"), "keygen", folder / "key"}).exit_code == 0);
    const auto start = [&](const std::string& config, int number) {
      return std::make_unique<Program>(
          launch({"--config=" + config, "--node_name=node" + std::to_string(number),
                  "--rdzv_endpoint=" + etcd.endpoint(), "--secret_file=" + (folder / "key"),
                  "--nproc_per_node=1", "--local_addr=127.0.0." + std::to_string(number + 1),
                  "--rdzv_conf=etcd_lease_timeout=3,last_call_timeout=0.1"},
                 "true"));
    };
    const auto host = start(file, 1);
    REQUIRE(host->read_until_contains(kHosts));
    const auto key_of = [&](const char* name) {
      return etcd.keys("/ddprun/etcd_example/" + std::string(name));
    };
    REQUIRE(wait_until([&] { return !key_of("record").empty(); }));
    host->signal(SIGKILL);
    CHECK(host->wait() == -SIGKILL);
    REQUIRE(wait_until([&] { return key_of("coordinator").empty(); }));
    const auto changed = start(folder / "changed.json", 2);
    CHECK(changed->wait() == 1);
    CHECK(contains(changed->output(), "it differs first in job.command[2]\n"));
  }

  TEST_CASE("elections: a signal ends the search for a coordinator") {
    const FreePort port;
    ElectedRun run("127.0.0.1:" + port.text(), "2", "true");
    auto& node = run.start(2);
    REQUIRE(node.read_until_contains("; trying again"));
    node.signal(SIGTERM);
    CHECK(node.wait() == 128 + SIGTERM);
  }

  TEST_CASE("elections: nodes with a secret elect a new host") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const TemporaryFolder folder;
    CHECK(run_program({in_bin("ddprun"), "keygen", folder / "key"}).exit_code == 0);
    const WorkerFolder workers;
    ElectedRun run(etcd.endpoint(), "1:3", workers.script(), {"--secret_file=" + (folder / "key")});
    check_loss_of_host(run, workers);
  }

  TEST_CASE("elections: nodes with TLS and client certificates elect a new host") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const TemporaryFolder folder;
    Authority authority(folder, "authority");
    const auto server = authority.issue("server", {.names = "IP:127.0.0.1"});
    const auto client = authority.issue("client");
    const EtcdServer etcd(EtcdTls{server.certificate, server.key, authority.file()});
    CHECK(run_program({in_bin("ddprun"), "keygen", folder / "key"}).exit_code == 0);
    const WorkerFolder workers;
    ElectedRun run(etcd.endpoint(), "1:3", workers.script(), {"--secret_file=" + (folder / "key")},
                   "last_call_timeout=0.2,etcd_lease_timeout=3,protocol=https,cacert=" +
                       authority.file() + ",cert=" + client.certificate + ",key=" + client.key);
    check_loss_of_host(run, workers);
  }

  TEST_CASE("elections: a TLS key readable by others ends the agent at once") {
    const TemporaryFolder folder;
    Authority authority(folder, "authority");
    const auto client = authority.issue("client");
    std::filesystem::permissions(client.key, std::filesystem::perms(0644));
    ElectedRun run("127.0.0.1:1", "2", "true", {"--security=open"},
                   "protocol=https,cacert=" + authority.file() + ",cert=" + client.certificate +
                       ",key=" + client.key);
    auto& node = run.start(2);
    CHECK(node.wait() == 2);
    CHECK(contains(node.output(), "--rdzv_conf=key=" + client.key +
                                      ": is open to others than its owner (mode 0644)"));
  }

  TEST_CASE("elections: a missing libssl is reported only if TLS is requested") {
    if (run_program({"unshare", "-m", "true"}).exit_code != 0) {
      return skip("mount namespaces are not permitted here");
    }
    link_map* libssl = nullptr;
    void* library = ::dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return skip("libssl.so.3 is not installed");
    REQUIRE(::dlinfo(library, RTLD_DI_LINKMAP, &libssl) == 0);
    const TemporaryFolder folder;
    Authority authority(folder, "authority");
    const auto run_without = [&](const std::vector<std::string>& options) {
      auto command = launch(options, "true");
      const std::vector<std::string> mount = {
          "unshare",     "-m", "sh", "-c", "mount --bind /dev/null \"$0\" && exec \"$@\"",
          libssl->l_name};
      command.insert(command.begin(), mount.begin(), mount.end());
      return run_program(command);
    };
    CHECK(run_without({"--nproc_per_node=2"}).exit_code == 0);
    const auto run = run_without({"--nnodes=1:2", "--rdzv_backend=etcd", "--security=open",
                                  "--rdzv_endpoint=127.0.0.1:1", "--rdzv_id=run",
                                  "--rdzv_conf=protocol=https,cacert=" + authority.file()});
    CHECK(run.exit_code == 2);
    CHECK(contains(run.output, "TLS: cannot load libssl.so.3: "));
    CHECK(contains(run.output, "; install OpenSSL's libraries (Debian: libssl3)"));
    ::dlclose(library);
  }

  TEST_CASE("elections: configs/etcd.json works on two machines") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const TemporaryFolder folder;
    CHECK(run_program({in_bin("ddprun"), "keygen", folder / "key"}).exit_code == 0);
    const auto start = [&](int number) {
      return std::make_unique<Program>(
          launch({"--config=" DDPRUN_SOURCE_DIR "/configs/etcd.json",
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

}  // namespace elections_test
