// An elected host that leaves waits until workers of other nodes have saved their state.
#include "tests/support/elected_run.hpp"
#include "tests/support/etcd_server.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <string>

namespace host_leave_test {

using namespace ddprun::test;

namespace {

/// Reports its rank, and waits for the file that lets it succeed.
std::string waiting_for(const std::string& file) {
  return "echo \"up as $RANK of $WORLD_SIZE\"; while [ ! -e " + file + " ]; do sleep 0.02; done";
}

/// Ends at once on the first node; on the others it saves for longer than a coordinator waits for
/// nodes to leave.
std::string saving_to(const TemporaryFolder& folder) {
  return "trap '[ $RANK = 0 ] || { sleep 6; : >" + (folder / "saved.$RANK") +
         "; }; exit 0' TERM; " + waiting_for(folder / "done");
}

}  // namespace

TEST_SUITE("host leave") {
  TEST_CASE("host leave: an elected host waits until the workers of all nodes have stopped") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const TemporaryFolder folder;
    ElectedRun run(etcd.endpoint(), "1:2", saving_to(folder));
    auto& host = run.start_host(2);
    auto& other = run.start(3);
    REQUIRE(other.read_until_contains("up as 1 of 2"));
    REQUIRE(host.read_until_contains("up as 0 of 2"));
    host.signal(SIGTERM);
    REQUIRE(other.read_until_contains("up as 0 of 1"));
    CHECK(host.wait() == 128 + SIGTERM);
    INFO(host.output());
    INFO(other.output());
    CHECK(std::filesystem::exists(folder / "saved.1"));
    CHECK(contains(host.output(), "waits until the workers of the others have ended"));
    write_file(folder / "done", "");
    CHECK(other.wait() == 0);
  }

  TEST_CASE("host leave: a second interrupt ends the wait for other nodes") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    const TemporaryFolder folder;
    ElectedRun run(etcd.endpoint(), "1:2",
                   "trap '[ $RANK = 0 ] && exit 0' INT TERM; " + waiting_for(folder / "done"));
    auto& host = run.start_host(2);
    auto& other = run.start(3);
    REQUIRE(other.read_until_contains("up as 1 of 2"));
    REQUIRE(host.read_until_contains("up as 0 of 2"));
    host.signal(SIGINT);
    REQUIRE(host.read_until_contains("waits until the workers of the others have ended"));
    host.signal(SIGINT);
    CHECK(host.wait() == 128 + SIGINT);
    REQUIRE(other.read_until_contains("up as 0 of 1"));
    write_file(folder / "done", "");
    CHECK(other.wait() == 0);
  }
}

}  // namespace host_leave_test
