// Messages of nodes of a run with etcd.
#include "tests/support/elected_run.hpp"
#include "tests/support/etcd_server.hpp"
#include "tests/support/skip.hpp"

#include <doctest/doctest.h>

namespace elections_messages_test {

using namespace ddprun::test;

TEST_SUITE("election messages") {
  TEST_CASE("elections: reusing the id of a finished run causes a warning") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    ElectedRun run(etcd.endpoint(), "1:2", "echo at work");
    CHECK(run.start(2).wait() == 0);
    auto& again = run.start(2);
    CHECK(again.wait() == 0);
    CHECK_FALSE(contains(again.output(), "at work"));
    CHECK(contains(again.output(),
                   "warning node 127.0.0.2: the run \"run\" has already succeeded without this "
                   "node; no workers are started here"));
    CHECK(contains(again.output(),
                   "a new run needs another --rdzv_id, since etcd keeps the outcome for "));
  }

  TEST_CASE("elections: a host elected at an unreachable address steps down") {
    if (!EtcdServer::is_installed()) return skip(kNoEtcd);
    const EtcdServer etcd;
    ElectedRun run(etcd.endpoint(), "2", "echo at work");
    auto& lost = run.start(2, {"--local_addr=192.0.2.1"});  // reserved for documentation
    REQUIRE(lost.read_until_contains(kHosts));
    auto& other = run.start(3);
    REQUIRE(lost.read_until_contains("it resigns as coordinator"));
    CHECK(contains(lost.output(),
                   "this node was elected to host the rendezvous and cannot be "
                   "reached at 192.0.2.1:"));
    REQUIRE(other.read_until_contains(kHosts));
    CHECK(lost.wait() == 0);
    CHECK(other.wait() == 0);
    CHECK(contains(lost.output(), "at work"));
  }
}

}  // namespace elections_messages_test
