// The guardian kills the workers of an agent that is stopped.
#include "tests/support/agent_process.hpp"

#include <doctest/doctest.h>

#include <csignal>

namespace guard_until_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

Deadline::Clock::time_point in(Deadline::Duration time) {
  return Deadline::Clock::now() + time;
}

}  // namespace

TEST_SUITE("guard until") {
  TEST_CASE("guardian: all processes are killed at the end of the lease without the agent") {
    for (const auto mode : {ContainmentMode::marker, ContainmentMode::automatic}) {
      CAPTURE(static_cast<int>(mode));
      WorkerBench bench(1, mode);
      const auto file = bench.folder() / "pid";
      const auto worker =
          bench.start({shell_worker(0, in_own_session(file) + "sleep 1000")})[0].pid;
      const pid_t grandchild = pid_in(file);
      bench.containment().guard_until(in(0ms));
      // This process runs nothing but this wait.
      CHECK(await_end(worker, Deadline::after(20s)));
      CHECK(await_end(grandchild, Deadline::after(20s)));
      bench.run_to_end();
      CHECK(bench.history().exit_of(0).signal == SIGKILL);
    }
  }

  TEST_CASE("guardian: a guardian is replaced if the lease is extended too late") {
    WorkerBench bench;
    const auto worker = bench.start({shell_worker(0, "sleep 1000")})[0].pid;
    auto& containment = bench.containment();
    const pid_t guardian = containment.guardian_pid();
    containment.guard_until(in(1h));
    containment.guard_until(in(2h));
    CHECK(containment.guardian_pid() == guardian);
    CHECK(is_alive(worker));
    containment.guard_until(in(0ms));
    CHECK(containment.guardian_pid() == guardian);
    containment.guard_until(in(1h));
    CHECK(containment.guardian_pid() != guardian);
    bench.group().stop(SIGKILL, 0ms);
    bench.run_to_end();
  }

  TEST_CASE("guardian: a stopped guardian with a full pipe is replaced") {
    Containment containment;
    const pid_t guardian = containment.guardian_pid();
    ::kill(guardian, SIGSTOP);
    constexpr int kMoreThanAPipeHolds = 65'536;
    int calls = 0;
    while (containment.guardian_pid() == guardian && calls < kMoreThanAPipeHolds) {
      containment.guard_until(in(1h));
      ++calls;
    }
    CHECK(calls > 1000);
    CHECK(calls < kMoreThanAPipeHolds);
    CHECK_FALSE(is_alive(guardian));
  }
}

}  // namespace guard_until_test
