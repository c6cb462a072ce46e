// Runs with a secret whose values in etcd have been changed, replaced or restored from an earlier
// run: none of them makes a run succeed or changes its behaviour, and each is reported.
#include "rendezvous/etcd/run_keys.hpp"
#include "tests/support/elected_run.hpp"
#include "tests/support/etcd_server.hpp"
#include "tests/support/free_port.hpp"
#include "tests/support/skip.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

namespace forged_etcd_test {

using namespace ddprun;
using namespace ddprun::test;
using membership::RunOutcome;
using membership::RunRecord;

namespace {

constexpr const char* kShort = "last_call_timeout=0.2,lease_timeout=2,etcd_lease_timeout=2";
constexpr const char* kShowRank = "echo \"rank $RANK of $WORLD_SIZE\"";
const etcd::RunKeys kKeys("/ddprun", "run");

struct SecretFile {
  SecretFile() { CHECK(run_program({in_bin("ddprun"), "keygen", path}).exit_code == 0); }

  std::vector<std::string> options() const { return {"--secret_file=" + path}; }

  TemporaryFolder folder;
  std::string path = folder / "key";
};

std::string ignored(const std::string& key) {
  return "etcd's key " + key + ": value ignored, as it ";
}

std::string success() {
  return etcd::outcome_text({.result = membership::RunResult::succeeded, .rounds = 1});
}

/// The sealed outcome of a successful run of this name.
std::string earlier_outcome(const SecretFile& secret) {
  const EtcdServer etcd;
  ElectedRun run(etcd.endpoint(), "1:2", "true", secret.options(), kShort);
  CHECK(run.start(2).wait() == 0);
  return etcd.value(kKeys.outcome());
}

/// Runs two nodes to their end; returns the output of the agents.
std::string succeed_with_two(const EtcdServer& etcd, const SecretFile& secret) {
  ElectedRun run(etcd.endpoint(), "2", kShowRank, secret.options(), kShort);
  auto& first = run.start(2);
  auto& second = run.start(3);
  CHECK(first.wait() == 0);
  CHECK(second.wait() == 0);
  auto output = first.output() + second.output();
  CHECK(contains(output, "rank 0 of 2"));
  CHECK(contains(output, "rank 1 of 2"));
  return output;
}

}  // namespace

TEST_SUITE("forged values in etcd") {
  TEST_CASE("forged etcd values: a forged outcome does not end a run") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const SecretFile secret;
    etcd.put(kKeys.outcome(), success());
    const auto output = succeed_with_two(etcd, secret);
    CHECK(contains(output, ignored(kKeys.outcome()) + "is not sealed with this run's secret"));
    // The run's own outcome has replaced it.
    CHECK(contains(etcd.value(kKeys.outcome()), "\nseal "));
  }

  TEST_CASE("forged etcd values: an earlier run's outcome does not complete a new run") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const SecretFile secret;
    const EtcdServer etcd;
    etcd.put(kKeys.outcome(), earlier_outcome(secret));
    ElectedRun run(etcd.endpoint(), "1:2", kShowRank, secret.options(), kShort);
    auto& node = run.start(2);
    CHECK(node.wait() == 1);
    CHECK(contains(node.output(), "a node that has not taken part in it cannot verify"));
    CHECK_FALSE(contains(node.output(), "rank 0 of 1"));
  }

  TEST_CASE("forged etcd values: an earlier run's outcome does not end an active run") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const SecretFile secret;
    const EtcdServer etcd;
    const WorkerFolder workers;
    ElectedRun run(etcd.endpoint(), "1:3", workers.script(), secret.options(), kShort);
    Three nodes(run);
    etcd.put(kKeys.outcome(), earlier_outcome(secret));
    nodes.host.signal(SIGKILL);
    CHECK(nodes.host.wait() == -SIGKILL);
    REQUIRE(nodes.second.read_until_contains("rank 0 of 2, restarts 0."));
    workers.open();
    CHECK(nodes.second.wait() == 0);
    CHECK(nodes.third.wait() == 0);
    const auto output = nodes.second.output() + nodes.third.output();
    CHECK(contains(output, ignored(kKeys.outcome()) + "is of another run of this name"));
    run.check_that_nothing_is_left(workers);
  }

  TEST_CASE("forged etcd values: a forged record and its member do not change a run") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const SecretFile secret;
    const RunRecord forged{.round = 7,
                           .rounds_formed = 8,
                           .nodes = {{"intruder", 1}},
                           .host = {"intruder", 1},
                           .restarts = 3,
                           .nodes_min = 1,
                           .nodes_max = 9,
                           .max_restarts = 9};
    etcd.put(kKeys.record(), etcd::record_text(forged));
    const auto output = succeed_with_two(etcd, secret);
    CHECK(contains(output, ignored(kKeys.record()) + "is not sealed with this run's secret"));
    CHECK_FALSE(contains(output, "intruder"));
  }

  TEST_CASE("forged etcd values: an older record of a run does not restore used restarts") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const SecretFile secret;
    const WorkerFolder workers;
    const auto script = workers.script("go.$TORCHELASTIC_RESTART_COUNT",
                                       "[ $RANK = 1 ] || sleep 1000 9>&-; exit 3");
    auto options = secret.options();
    options.emplace_back("--max_restarts=1");
    ElectedRun run(etcd.endpoint(), "1:3", script, options, kShort);
    Three nodes(run);
    const auto older = etcd.value(kKeys.record());
    workers.open("go.0");
    REQUIRE(nodes.host.read_until_contains("rank 0 of 3, restarts 1."));
    nodes.host.signal(SIGKILL);
    CHECK(nodes.host.wait() == -SIGKILL);
    etcd.put(kKeys.record(), older);
    REQUIRE(nodes.second.read_until_contains("rank 0 of 2, restarts 1."));
    REQUIRE(nodes.third.read_until_contains("rank 1 of 2, restarts 1."));
    workers.open("go.1");
    CHECK(nodes.second.wait() == 1);
    CHECK(nodes.third.wait() == 1);
    const auto output = nodes.second.output() + nodes.third.output();
    CHECK(
        contains(output, ignored(kKeys.record()) + "is older than what the coordinator has sent"));
    run.check_that_nothing_is_left(workers);
  }

  TEST_CASE("forged etcd values: a node accepts the record of a host that it has not met") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const SecretFile secret;
    const WorkerFolder workers;
    ElectedRun run(etcd.endpoint(), "1:2", workers.script(), secret.options(), kShort);
    auto& first = run.start_host(2);
    REQUIRE(first.read_until_contains("rank 0 of 1"));
    auto& stopped = run.start(3);
    REQUIRE(stopped.read_until_contains("rank 1 of 2"));
    stopped.signal(SIGSTOP);
    first.signal(SIGKILL);
    CHECK(first.wait() == -SIGKILL);
    auto& next = run.start_host(4);
    REQUIRE(next.read_until_contains("attempt 2"));
    next.signal(SIGKILL);
    CHECK(next.wait() == -SIGKILL);
    REQUIRE(wait_until([&] { return etcd.value(kKeys.coordinator()).empty(); }));
    stopped.signal(SIGCONT);
    REQUIRE(stopped.read_until_contains("attempt 3"));
    workers.open();
    CHECK(stopped.wait() == 0);
    CHECK_FALSE(contains(stopped.output(), "value ignored"));
    run.check_that_nothing_is_left(workers);
  }

  TEST_CASE(
      "forged etcd values: a forged coordinator is ignored but blocks the run until deleted") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const SecretFile secret;
    const FreePort port;
    const StoreEndpoint intruder{"127.0.0.1", static_cast<std::uint16_t>(port.number())};
    etcd.put(kKeys.coordinator(), etcd::holder_text("intruder", intruder));
    ElectedRun run(etcd.endpoint(), "2", kShowRank, secret.options(), kShort);
    auto& first = run.start(2);
    auto& second = run.start(3);
    const auto report = ignored(kKeys.coordinator()) + "is not sealed with this run's secret";
    REQUIRE(first.read_until_contains(report));
    REQUIRE(second.read_until_contains(report));
    etcd.remove(kKeys.coordinator());
    CHECK(first.wait() == 0);
    CHECK(second.wait() == 0);
    CHECK_FALSE(contains(first.output() + second.output(), port.text()));
  }

  TEST_CASE("forged etcd values: a forged configuration is not shown as that of the run") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const SecretFile secret;
    const std::string file = DDPRUN_SOURCE_DIR "/configs/etcd.json";
    auto text = read_file(file);
    text.replace(text.find("--epochs=20"), 11, "--epochs=21");
    write_file(secret.folder / "changed.json", text);
    const auto start = [&](const std::string& config, int number) {
      return std::make_unique<Program>(
          launch({"--config=" + config, "--node_name=node" + std::to_string(number),
                  "--rdzv_endpoint=" + etcd.endpoint(), "--secret_file=" + secret.path,
                  "--nproc_per_node=1", "--local_addr=127.0.0." + std::to_string(number + 1),
                  "--rdzv_conf=etcd_lease_timeout=3,last_call_timeout=0.1"},
                 "true"));
    };
    const etcd::RunKeys keys("/ddprun", "etcd_example");
    const auto host = start(file, 1);
    REQUIRE(host->read_until_contains(kHosts));
    REQUIRE(wait_until([&] { return !etcd.value(keys.config()).empty(); }));
    host->signal(SIGKILL);
    CHECK(host->wait() == -SIGKILL);
    REQUIRE(wait_until([&] { return etcd.value(keys.coordinator()).empty(); }));
    auto outline = etcd.value(keys.config());
    outline.replace(outline.find("nnodes"), 6, "forged");
    etcd.put(keys.config(), outline);
    const auto changed = start(secret.folder / "changed.json", 2);
    CHECK(changed->wait() == 1);
    CHECK(contains(changed->output(), ignored(keys.config())));
    CHECK_FALSE(contains(changed->output(), "it differs first in"));
  }

  TEST_CASE("forged etcd values: etcd stores configuration checksums without environment") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const SecretFile secret;
    const std::string config = secret.folder / "run.json";
    write_file(config, R"({"version": 1,
      "job": {"rdzv_id": "run", "command": ["true", "argument-text"], "no_python": true},
      "rendezvous": {"nnodes": "1:2", "rdzv_backend": "etcd"},
      "defaults": {"environment": {"API_KEY": "key-text"}}})");
    CHECK(run_program({in_bin("ddprun"), "--config=" + config, "--local_addr=127.0.0.2",
                       "--rdzv_endpoint=" + etcd.endpoint(), std::string("--rdzv_conf=") + kShort,
                       "--secret_file=" + secret.path})
              .exit_code == 0);
    std::string all;
    for (const auto& line : etcd.keys("/ddprun/")) all += line + "\n";
    CHECK(contains(all, "/ddprun/run/config "));
    for (const char* text : {"argument-text", "key-text", "API_KEY"}) {
      CAPTURE(text);
      CHECK_FALSE(contains(all, text));
    }
  }
}

}  // namespace forged_etcd_test
