// A worker that crashes when all are asked to stop because a node joins.
#include "tests/support/cluster.hpp"

#include <doctest/doctest.h>

#include <string>

namespace crash_on_stop_test {

using namespace ddprun::test;

namespace {

/// Rank 0 ignores the request and waits for its peers, as in a collective; rank 1 crashes. Once
/// rank 0 has detected the end of the attempt, all workers succeed.
std::string script_in(const TemporaryFolder& folder) {
  return "[ -e " + (folder / "aborted") + " ] && exit 0; [ $RANK = 0 ] && exec " +
         in_bin("probe_worker") + " await-abort " + (folder / "ready") + " " +
         (folder / "aborted") +
         "; trap 'kill -ABRT $$' TERM; echo up; while :; do sleep 0.02; done";
}

}  // namespace

TEST_SUITE("crash on stop") {
  TEST_CASE("crash on stop: a worker that crashes when stopped releases its waiting peers") {
    const TemporaryFolder folder;
    Cluster cluster("2:3", script_in(folder));
    auto& host = cluster.start(2);
    auto& other = cluster.start(3);
    REQUIRE(other.read_until_contains("up"));
    REQUIRE(wait_until([&] { return std::filesystem::exists(folder / "ready"); }));
    auto& newcomer = cluster.start(4);
    CHECK(newcomer.wait() == 0);
    CHECK(host.wait() == 0);
    CHECK(other.wait() == 0);
    CHECK(
        contains(read_file(folder / "aborted"), "was killed by SIGABRT when it was asked to stop"));
    CHECK(contains(newcomer.output(), "attempt 1"));
  }
}

}  // namespace crash_on_stop_test
