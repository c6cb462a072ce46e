// Faults of single nodes that nodes_test.cpp does not cover: wrong clocks, ports in use, a lack of
// descriptors, a bad device.
#include "tests/support/cluster.hpp"
#include "tests/support/other_preflight.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <string>
#include <sys/resource.h>

namespace node_faults_test {

using namespace ddprun::test;

namespace {

std::map<std::string, std::string> clock_wrong_by(int seconds, bool jumps = false) {
  return {{"LD_PRELOAD", DDPRUN_SKEWED_CLOCK},
          {"SKEW_SECONDS", std::to_string(seconds)},
          {"SKEW_JUMPS", jumps ? "1" : "0"}};
}

int limit_descriptors(const Program& program, rlim_t number) {
  rlimit before{};
  ::prlimit(program.pid(), RLIMIT_NOFILE, nullptr, &before);
  const rlimit limit{.rlim_cur = number, .rlim_max = before.rlim_max};
  REQUIRE(::prlimit(program.pid(), RLIMIT_NOFILE, &limit, nullptr) == 0);
  return static_cast<int>(before.rlim_cur);
}

}  // namespace

TEST_SUITE("node faults") {
  TEST_CASE("node faults: wrong or jumping wall clocks do not affect a run") {
    constexpr int kHour = 3600;
    // The workers run for several leases; each prints its local time. A lease may end by load
    // alone, but if the clocks ended leases no round would complete.
    Cluster cluster("3", "date '+date %s'; echo \"rank $RANK of $WORLD_SIZE.\"; sleep 2", {},
                    "lease_timeout=1,last_call_timeout=60");
    auto& host = cluster.start(2, {}, clock_wrong_by(kHour));
    auto& behind = cluster.start(3, {}, clock_wrong_by(-kHour));
    auto& jumping = cluster.start(4, {}, clock_wrong_by(100 * kHour, true));
    for (auto* node : {&host, &behind, &jumping}) {
      CHECK(node->wait() == 0);
      CHECK(contains(node->output(), " of 3."));
      CHECK(node->leaves_no_process());
    }
    // The clocks did differ: the dates show it.
    const auto date_in = [](const std::string& output) {
      return std::stol(output.substr(output.find("date ") + 5));
    };
    CHECK(date_in(host.output()) - date_in(behind.output()) > kHour);
  }

  TEST_CASE("node faults: a host reports the process that holds the rendezvous port") {
    Cluster cluster("2", "sleep 1000", {}, "last_call_timeout=60");
    auto& first = cluster.start(2);
    REQUIRE(first.read_until_contains("hosts the rendezvous"));
    auto& second = cluster.start(2);
    CHECK(second.wait() == 1);
    const auto port = std::to_string(cluster.port());
    CHECK(contains(second.output(), "port " + port));
    CHECK(contains(second.output(), "process " + std::to_string(first.pid())));
    first.signal(SIGTERM);
    CHECK(first.wait() == 128 + SIGTERM);
  }

  TEST_CASE("node faults: a node without free descriptors retries to connect") {
    const TemporaryFolder folder;
    const FreePort port;
    const std::string name = "--rdzv_endpoint=localhost:" + port.text();
    Cluster cluster(
        "2", "echo \"rank $RANK.\"; while [ ! -e " + (folder / "done") + " ]; do sleep 0.02; done",
        {name});
    auto& host = cluster.start(2);
    auto& other = cluster.start(3);
    REQUIRE(host.read_until_contains("rank 0."));
    REQUIRE(other.read_until_contains("rank 1."));
    const int before = limit_descriptors(other, 3);
    host.signal(SIGKILL);
    REQUIRE(other.read_until_contains("the rendezvous is lost"));
    CHECK(host.wait() == -SIGKILL);
    CHECK(host.leaves_no_process());
    auto& again = cluster.start(2);
    REQUIRE(again.read_until_contains("hosts the rendezvous"));
    limit_descriptors(other, static_cast<rlim_t>(before));
    REQUIRE(again.read_until_contains("rank 0."));
    write_file(folder / "done", "");
    CHECK(again.wait() == 0);
    CHECK(other.wait() == 0);
  }

  TEST_CASE("node faults: a node with a failed preflight does not join and the others continue") {
    const OtherPreflight bad("printf 'device GPU 7\\nproblem it forgets\\nend\\n' > $1\n");
    Cluster cluster("1:2", "echo \"rank $RANK of $WORLD_SIZE.\"", {"--preflight"},
                    "last_call_timeout=0.2");
    auto& other = cluster.start(3, {}, {}, bad.ddprun());
    CHECK(other.wait() == 3);
    CHECK(contains(other.output(), "preflight: local rank 0, GPU 7: it forgets\n"));
    CHECK_FALSE(contains(other.output(), "meeting the other nodes"));
    auto& host = cluster.start(2);
    CHECK(host.wait() == 0);
    CHECK(contains(host.output(), "preflight: CPU passed"));
    CHECK(contains(host.output(), "rank 0 of 1."));
  }
}

}  // namespace node_faults_test
