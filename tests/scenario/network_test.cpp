// Runs of several nodes on a network that can be cut.
#include "tests/support/network.hpp"

#include "tests/support/cluster.hpp"
#include "tests/support/launch.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <string>

using ddprun::test::contains;
using ddprun::test::launch;
using ddprun::test::make_secret;
using ddprun::test::Network;
using ddprun::test::Program;
using ddprun::test::TemporaryFolder;
using ddprun::test::wait_until;
using ddprun::test::write_file;

namespace {

std::vector<std::string> agent(const Network& network, int number, const std::string& secret_file,
                               const std::string& script) {
  return network.on(
      number, launch({"--nnodes=1:2", "--rdzv_backend=c10d",
                      "--rdzv_endpoint=" + network.address(1) + ":29400", "--rdzv_id=cut",
                      "--local_addr=" + network.address(number), "--secret_file=" + secret_file,
                      "--rdzv_conf=last_call_timeout=30,lease_timeout=1.5,rejoin_timeout=60"},
                     script));
}

}  // namespace

TEST_SUITE("network") {
  TEST_CASE("a node that is cut off stops its workers before others take over, and comes back") {
    const Network network(2);
    if (!network.is_there()) {
      MESSAGE("skipped: network namespaces are not permitted here");
      return;
    }
    const TemporaryFolder folder;
    const auto secret_file = make_secret(folder / "secret");
    // Rank 1 tells which process it is.
    const std::string script =
        "echo \"rank $RANK of $WORLD_SIZE.\"; [ $RANK = 0 ] || { echo $$ > " + (folder / "alive") +
        "; }; while [ ! -e " + (folder / "done") + " ]; do sleep 0.02; done";
    Program host(agent(network, 1, secret_file, script));
    Program other(agent(network, 2, secret_file, script));
    REQUIRE(host.read_until_contains("rank 0 of 2."));
    REQUIRE(other.read_until_contains("rank 1 of 2."));
    REQUIRE(wait_until([&] { return !ddprun::test::read_file(folder / "alive").empty(); }));
    const auto worker = "/proc/" + ddprun::test::read_lines(folder / "alive").front();

    network.cut(2);
    REQUIRE(host.read_until_contains("rank 0 of 1."));
    CHECK(contains(host.output(), network.address(2) + " is lost: it was silent for 1.5 s"));
    CHECK(ddprun::test::read_file(worker + "/cmdline").empty());
    REQUIRE(other.read_until_contains("the rendezvous is lost: it has not answered for"));

    network.mend(2);
    REQUIRE(other.read_until([](std::string_view output) {
      return ddprun::test::count(std::string(output), "rank 1 of 2.") == 2;
    }));
    write_file(folder / "done", "");
    CHECK(host.wait() == 0);
    CHECK(other.wait() == 0);
    CHECK(host.leaves_no_process());
    CHECK(other.leaves_no_process());
  }
}
