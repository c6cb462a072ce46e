// A suspended run: all its processes are stopped, and later continue.
#include "launcher/process/containment.hpp"
#include "launcher/process/proc_scan.hpp"
#include "rendezvous/base/quiet_write.hpp"
#include "rendezvous/base/run_clock.hpp"
#include "tests/support/worker_bench.hpp"

#include <doctest/doctest.h>

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace freeze_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

char state_of(pid_t pid) {
  return process_state(pid).letter;
}

}  // namespace

TEST_SUITE("suspended run") {
  TEST_CASE("suspended run: without a cgroup processes in all sessions are stopped") {
    WorkerBench bench(1, ContainmentMode::marker);
    const auto helper = bench.folder() / "helper", worker = bench.folder() / "worker";
    bench.start({shell_worker(0, "setsid sh -c 'echo $$ >" + helper.string() +
                                     "; exec sleep 1000' >/dev/null 2>&1 & echo $$ >" +
                                     worker.string() + "; exec sleep 1000")});
    const pid_t pids[] = {std::stoi(await_line(helper)), std::stoi(await_line(worker))};
    bench.containment().freeze();
    for (const pid_t pid : pids) bench.run_until([&] { return state_of(pid) == 'T'; });
    bench.containment().thaw();
    for (const pid_t pid : pids) bench.run_until([&] { return state_of(pid) != 'T'; });
  }

  TEST_CASE("suspended run: processes that were already stopped stay stopped") {
    WorkerBench bench(1, ContainmentMode::marker);
    const auto file = bench.folder() / "worker";
    bench.start({shell_worker(0, "echo $$ >" + file.string() + "; exec sleep 1000")});
    const pid_t pid = std::stoi(await_line(file));
    REQUIRE(::kill(pid, SIGSTOP) == 0);
    bench.run_until([&] { return state_of(pid) == 'T'; });
    bench.containment().freeze();
    bench.containment().thaw();
    CHECK(state_of(pid) == 'T');
  }

  TEST_CASE("suspended run: a frozen worker continues after the thaw") {
    WorkerBench bench;
    const auto ready = bench.folder() / "ready", go = bench.folder() / "go";
    bench.start({shell_worker(0, "echo >" + ready.string() + "; while [ ! -e " + go.string() +
                                     " ]; do sleep 0.01; done; echo went on; exit 3")});
    await_line(ready);
    bench.containment().freeze();
    std::ofstream{go};
    bench.containment().thaw();
    bench.run_to_end();
    CHECK(bench.console() == "[w0]:went on\n");
    CHECK(bench.history().exit_of(0).exit_code == 3);
  }

  TEST_CASE("suspended run: frozen workers are killed after the extended grace period") {
    WorkerBench bench;
    const auto ready = bench.folder() / "ready";
    bench.start({shell_worker(
        0, "trap '' TERM; echo >" + ready.string() + "; while :; do sleep 0.01; done")});
    await_line(ready);
    bench.containment().freeze();
    const auto asked_at = std::chrono::steady_clock::now();
    bench.group().stop(SIGTERM, 1ms);
    RunClock::add_suspension(200ms);
    bench.run_to_end();
    CHECK(std::chrono::steady_clock::now() - asked_at >= 200ms);
    CHECK(bench.history().exit_of(0).signal == SIGKILL);
    CHECK(bench.history().killed.size() == 1);
    bench.containment().thaw();
  }
}

TEST_SUITE("quiet write") {
  TEST_CASE("log file: a write beyond the file size limit returns an error without a signal") {
    const TemporaryFolder folder;
    // An unprivileged process cannot raise its own limit again.
    const pid_t child = ::fork();
    if (child == 0) {
      const rlimit limit{.rlim_cur = 4, .rlim_max = 4};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      const int fd = ::open((folder.path() / "file").c_str(), O_WRONLY | O_CREAT, 0600);
      const bool first = quiet_write(fd, "123456", 6) == 4;
      const bool second = quiet_write(fd, "56", 2) == -1 && errno == EFBIG;
      ::_exit(first && second ? 0 : 1);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
  }
}

}  // namespace freeze_test
