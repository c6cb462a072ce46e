// Workers as real processes: their start, their end, and events of both.
#include "tests/support/worker_bench.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <iterator>

namespace worker_group_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator folder("/proc/self/fd");
  return std::distance(begin(folder), end(folder));
}

}  // namespace

TEST_SUITE("worker group") {
  TEST_CASE("worker group: each successful worker is reported") {
    WorkerBench bench(3);
    const auto started = bench.start(
        {shell_worker(0, "exit 0"), shell_worker(1, "exit 0"), shell_worker(2, "echo done")});
    REQUIRE(started.size() == 3);
    CHECK(started[1].rank == 1);
    CHECK(started[1].pid > 0);
    bench.run_to_end();
    REQUIRE(bench.history().exited.size() == 3);
    for (const auto& exit : bench.history().exited) CHECK_FALSE(exit.failed());
    CHECK(bench.history().exit_of(2).pid == started[2].pid);
    CHECK(bench.history().exit_of(2).peak_memory_bytes > 0);
    CHECK(bench.console() == "[w2]:done\n");
    CHECK(bench.sweep().empty());
  }

  TEST_CASE("worker group: an exit code is distinguished from the signal of the same number") {
    WorkerBench bench(2);
    bench.start({shell_worker(0, "exit 15"), shell_worker(1, "kill -TERM $$")});
    bench.run_to_end();
    CHECK(bench.history().exit_of(0).exit_code == 15);
    CHECK(bench.history().exit_of(0).signal == 0);
    CHECK(bench.history().exit_of(1).signal == SIGTERM);
    CHECK_FALSE(bench.history().exit_of(1).was_stopped);
  }

  TEST_CASE("worker group: the last lines of a failed worker's standard error are kept") {
    WorkerBench bench;
    bench.start({shell_worker(0,
                              "for i in $(seq 1 100); do echo line $i >&2; done; "
                              "printf 'no newline' >&2; exit 3")});
    bench.run_to_end();
    const auto& lines = bench.history().exit_of(0).last_lines;
    REQUIRE(lines.size() == 20);
    CHECK(lines.back() == "no newline");
    CHECK(lines.front() == "line 82");
  }

  TEST_CASE("worker group: workers that stop within the grace period are marked as stopped") {
    WorkerBench bench(2);
    bench.start({shell_worker(0, "exit 7"), shell_worker(1, "sleep 100 & wait")});
    bench.run_to_first_exit();
    CHECK(bench.group().running() == std::vector<int>{1});
    bench.group().stop(SIGTERM, 20s);
    bench.run_to_end();
    CHECK(bench.history().killed.empty());
    CHECK_FALSE(bench.history().exit_of(0).was_stopped);
    CHECK(bench.history().exit_of(1).was_stopped);
    CHECK(bench.history().exit_of(1).signal == SIGTERM);
    CHECK(bench.sweep().empty());
  }

  TEST_CASE("worker group: a worker that ignores the signal is killed after the grace period") {
    WorkerBench bench;
    const auto ready = bench.folder() / "ready";
    bench.start({shell_worker(
        0, "trap '' TERM; echo >" + ready.string() + "; while :; do sleep 100; done")});
    await_line(ready);
    bench.group().stop(SIGTERM, 100ms);
    bench.run_to_end();
    REQUIRE(bench.history().killed.size() == 1);
    CHECK(bench.history().killed[0].ranks == std::vector<int>{0});
    CHECK(bench.history().exit_of(0).signal == SIGKILL);
    CHECK(bench.history().exit_of(0).was_stopped);
  }

  TEST_CASE("worker group: a second grace period that is shorter replaces the first") {
    WorkerBench bench;
    const auto ready = bench.folder() / "ready";
    bench.start({shell_worker(
        0, "trap '' TERM; echo >" + ready.string() + "; while :; do sleep 100; done")});
    await_line(ready);
    bench.group().stop(SIGTERM, 1000s);
    bench.group().stop(SIGTERM, 0ms);
    bench.run_to_end();
    REQUIRE(bench.history().killed.size() == 1);
    CHECK(bench.history().killed[0].reason == "no grace period");
    CHECK(bench.history().exit_of(0).signal == SIGKILL);
  }

  TEST_CASE("worker group: a worker stopped by SIGSTOP still receives SIGTERM") {
    WorkerBench bench;
    const auto started = bench.start({shell_worker(0, "kill -STOP $$; sleep 100")});
    bench.group().stop(SIGTERM, 20s);
    bench.run_to_end();
    CHECK(bench.history().exit_of(0).signal == SIGTERM);
    CHECK(bench.history().killed.empty());
  }

  TEST_CASE("worker group: signals are forwarded to the process group of each worker") {
    WorkerBench bench;
    const auto ready = bench.folder() / "ready";
    // A wait interrupted by the signal returns more than 128 and is repeated.
    bench.start(
        {shell_worker(0, "trap : USR1; sh -c 'trap \"exit 9\" USR1; echo >" + ready.string() +
                             "; while :; do sleep 0.01; done' & "
                             "until wait $!; code=$?; [ $code -le 128 ]; do :; done; "
                             "exit $code")});
    await_line(ready);
    bench.group().forward(SIGUSR1);
    bench.run_to_end();
    CHECK(bench.history().exit_of(0).exit_code == 9);
  }

  TEST_CASE("worker group: an attempt gets no events or descriptors of the previous attempt") {
    // The descriptors of an attempt reuse the numbers of the previous one while its events may
    // still be in the loop's queue.
    constexpr int kAttempts = 10, kWorkers = 8;
    boost::asio::io_context io;
    Containment containment;
    OutputRouter router(io.get_executor(), {});
    const auto descriptors_before = open_descriptors();
    int ended = 0, killed = 0;
    auto attempts = [&]() -> boost::asio::awaitable<void> {
      for (int attempt = 0; attempt < kAttempts; ++attempt) {
        WorkerGroup group(io.get_executor(), attempt, containment, router,
                          control::ControlPage::create(kWorkers));
        std::vector<WorkerSpec> specs;
        for (int i = 0; i < kWorkers; ++i) specs.push_back(shell_worker(i, "exec sleep 1000"));
        StartRetry retry(io.get_executor(), attempt > 0);
        auto starting = group.start(std::move(specs), retry);
        const auto started = co_await std::move(starting);
        ::kill(std::get<std::vector<WorkerStarted>>(started)[3].pid, SIGKILL);
        WorkerEvent event = co_await group.next();
        group.stop(SIGTERM, 20s);
        while (!std::holds_alternative<AllExited>(event)) {
          if (const auto* exited = std::get_if<WorkerExited>(&event)) {
            ++ended;
            killed += exited->signal == SIGKILL && exited->rank == 3 && exited->attempt == attempt;
          }
          event = co_await group.next();
        }
      }
    };
    auto running = attempts();
    boost::asio::co_spawn(io, std::move(running), boost::asio::detached);
    io.run_for(50s);
    CHECK(ended == kAttempts * kWorkers);
    CHECK(killed == kAttempts);
    // Asio keeps a pipe for signals once it was created; no other descriptor of an attempt is left.
    CHECK(open_descriptors() < descriptors_before + kAttempts / 2);
  }

  TEST_CASE("worker group: the destructor kills the workers") {
    pid_t pid = 0;
    {
      WorkerBench bench;
      pid = bench.start({shell_worker(0, "sleep 100")})[0].pid;
      CHECK(is_alive(pid));
    }
    CHECK_FALSE(is_alive(pid));
  }
}

}  // namespace worker_group_test
