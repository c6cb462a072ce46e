// Runs in which rank 0 hosts the workers' store: the port that ddprun reserves for it, and workers
// that do not use it.
#include "rendezvous/store/listener.hpp"
#include "tests/support/launch.hpp"

#include <doctest/doctest.h>

#include <string>
#include <unistd.h>

namespace agent_store_test {

using ddprun::test::contains;
using ddprun::test::in_bin;
using ddprun::test::launch;
using ddprun::test::run_program;

TEST_SUITE("agent store") {
  TEST_CASE("agent store: workers with the runtime connect even if rank 0 hosts PyTorch's store") {
    const auto result =
        run_program({in_bin("ddprun"), "--nproc_per_node=2", "--agent_store=off", "trainer",
                     "--model=toy", "--dataset=random", "--max_steps=3"});
    CHECK_MESSAGE(result.exit_code == 0, result.output);
    CHECK(contains(result.output, "[default0]:step 3 after"));
  }

  TEST_CASE("agent store: MASTER_PORT is the same in all attempts") {
    const auto result = run_program(launch({"--agent_store=off", "--max_restarts=1"},
                                           "echo $TORCHELASTIC_USE_AGENT_STORE $MASTER_PORT; exit "
                                           "$((1 - TORCHELASTIC_RESTART_COUNT))"));
    CHECK_MESSAGE(result.exit_code == 0, result.output);
    const std::string begin = "[default0]:False ";
    const auto first = result.output.find(begin);
    REQUIRE(first != std::string::npos);
    const auto line = result.output.substr(first, result.output.find('\n', first) - first);
    CHECK(line.size() > begin.size());
    CHECK(result.output.find(line + "\n", first + 1) != std::string::npos);
  }

  TEST_CASE("agent store: a MASTER_PORT in use is reported before any worker starts") {
    const auto taken = ddprun::open_listener({.host = "127.0.0.1", .port = 0});
    const auto port = std::to_string(taken.port);
    const auto result =
        run_program(launch({"--agent_store=off", "--master_port=" + port}, "echo started"));
    CHECK(result.exit_code == 1);
    CHECK(contains(result.output, "port " + port + " is in use by process"));
    CHECK_FALSE(contains(result.output, "started"));
    ::close(taken.fd);
  }
}

}  // namespace agent_store_test
