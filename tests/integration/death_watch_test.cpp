// Deaths that the control page reports before the kernel has completed them.
#include "launcher/process/death_watch.hpp"

#include "launcher/plan/cgroup_folder.hpp"
#include "launcher/process/kernel_wait.hpp"
#include "launcher/process/proc_scan.hpp"
#include "rendezvous/control/flight_recorder.hpp"
#include "tests/support/threads_at_rest.hpp"
#include "tests/support/worker_bench.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <future>
#include <linux/futex.h>
#include <random>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace death_watch_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

WorkerSpec probe(WorkerBench& bench, int local_rank, std::vector<std::string> arguments) {
  WorkerSpec spec;
  spec.rank = spec.local_rank = local_rank;
  spec.arguments = {DDPRUN_BIN_DIR "/probe_worker"};
  for (auto& argument : arguments) spec.arguments.push_back(std::move(argument));
  spec.environment = {{"LOCAL_RANK", std::to_string(local_rank)},
                      {"DDPRUN_CONTROL_FD", std::to_string(bench.control_page_fd())}};
  return spec;
}

/// Returns true if the watch waits for further changes, so that it has reported earlier ones. In
/// the pause between its checks it waits in another system call.
bool is_watching() {
  for (const pid_t thread : thread_ids(::getpid())) {
    const auto call =
        parse_system_call(read_text("/proc/self/task/" + std::to_string(thread) + "/syscall"));
    if (call && call->number == SYS_futex_waitv) return true;
  }
  return false;
}

/// Waits until the worker is dead and the watch has reported it. The worker is not reaped
/// meanwhile, since the loop of the bench does not run.
void await_watched_death(const WorkerStarted& worker) {
  await_state(worker.pid, 'Z');
  await_threads_at_rest();
  const auto limit = Deadline::after(std::chrono::minutes(1));
  while (!is_watching()) REQUIRE_FALSE(limit.passed());
}

/// Overwrites all of the page but its first sizes repeatedly; wakes sleepers.
[[noreturn]] void write_at_random(int page_fd) {
  struct stat status {};
  ::fstat(page_fd, &status);
  const auto words = static_cast<std::size_t>(status.st_size) / 4;
  auto* const memory = static_cast<std::atomic<std::uint32_t>*>(
      ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ | PROT_WRITE, MAP_SHARED,
             page_fd, 0));
  std::minstd_rand random(1);
  while (true) {
    for (int i = 0; i < 1000; ++i) {
      // Overwrites the beginnings of the parts more often than the rest.
      const std::size_t page = random() % (words / 1024) * 1024;
      memory[page + random() % (i % 2 == 0 ? 64 : 1024)] =
          static_cast<std::uint32_t>(i % 3 == 0 ? random() % 5 : random());
    }
    for (std::size_t page = 0; page < words; page += 1024)
      ::syscall(SYS_futex, memory + page, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
}

std::chrono::duration<double> processor_time() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

TEST_SUITE("death watch") {
  TEST_CASE("death watch: a change made before the start of the watch is reported") {
    const auto page = control::ControlPage::create(1);
    page.wake();
    std::promise<void> notified;
    const DeathWatch watch(
        page, {::getpid()}, [](int, const auto&) {}, [&] { notified.set_value(); });
    CHECK(notified.get_future().wait_for(20s) == std::future_status::ready);
  }

  TEST_CASE("death watch: random writes of a worker do not delay the watch or keep it busy") {
    const auto page = control::ControlPage::create(2);
    const pid_t writer = ::fork();
    if (writer == 0) write_at_random(page.fd());
    std::atomic<int> changes = 0;
    const auto begin = Deadline::Clock::now();
    const auto before = processor_time();
    {
      const DeathWatch watch(
          page, {writer, ::getpid()}, [](int, const auto&) {}, [&] { ++changes; });
      const auto limit = Deadline::after(20s);
      while (changes < 4 && !limit.passed()) {
        for (const int worker : {0, 1}) {
          const auto flights =
              control::read_flights(page, worker, control::FlightRecorder::Clock::now());
          CHECK(flights.groups.size() <= control::kFlightGroupsMax);
        }
        ::usleep(20'000);
      }
    }
    const std::chrono::duration<double> took = Deadline::Clock::now() - begin;
    ::kill(writer, SIGKILL);
    CHECK(::waitpid(writer, nullptr, 0) == writer);
    CHECK(changes >= 4);
    CHECK(changes <= took / DeathWatch::kChangePeriod + 1);
    CHECK(processor_time() - before < took / 2);
  }

  TEST_CASE("death watch: damage of the control page is reported even if it is repaired") {
    const auto page = control::ControlPage::create(1);
    auto& phase = *reinterpret_cast<std::atomic<std::uint32_t>*>(
        static_cast<char*>(page.worker_area(0)) + sizeof(pthread_mutex_t));
    const std::uint32_t valid = phase.exchange(99);
    std::promise<std::optional<std::string>> reported;
    const DeathWatch watch(
        page, {::getpid()},
        [&](int, std::optional<std::string> damage) {
          phase = valid;
          reported.set_value(std::move(damage));
        },
        [] {});
    auto damage = reported.get_future();
    REQUIRE(damage.wait_for(20s) == std::future_status::ready);
    CHECK(damage.get() == "phase 99");
    CHECK_FALSE(page.damage(0));
  }

  TEST_CASE("death watch: a killed worker is reported before it is reaped") {
    WorkerBench bench;
    const auto ready = bench.folder() / "ready";
    const auto started = bench.start({probe(bench, 0, {"hold", ready.string()})});
    await_line(ready);
    ::kill(started[0].pid, SIGKILL);
    await_watched_death(started[0]);
    bench.run_to_first_event();
    REQUIRE(bench.history().dying.size() == 1);
    CHECK(bench.history().exited.empty());
    bench.run_to_end();
    CHECK(bench.history().dying.size() == 1);
    CHECK(bench.history().exit_of(0).signal == SIGKILL);
    CHECK_FALSE(bench.history().exit_of(0).was_stopped);
  }

  TEST_CASE("death watch: _exit() with a nonzero status is reported like a death") {
    for (const int status : {0, 3}) {
      CAPTURE(status);
      WorkerBench bench;
      const auto ready = bench.folder() / "ready";
      const auto started =
          bench.start({probe(bench, 0, {"leave", std::to_string(status), ready.string()})});
      await_line(ready);
      ::kill(started[0].pid, SIGUSR1);
      await_watched_death(started[0]);
      bench.run_to_end();
      CHECK(bench.history().dying.size() == (status == 0 ? 0U : 1U));
      CHECK(bench.history().exit_of(0).exit_code == status);
    }
  }

  TEST_CASE("death watch: a worker that died before the stop is not marked as stopped") {
    WorkerBench bench;
    const auto ready = bench.folder() / "ready";
    const auto started = bench.start({probe(bench, 0, {"hold", ready.string()})});
    await_line(ready);
    ::kill(started[0].pid, SIGKILL);
    bench.run_to_first_event();
    bench.group().stop(SIGTERM, 20s);
    bench.run_to_end();
    CHECK_FALSE(bench.history().exit_of(0).was_stopped);
  }

  TEST_CASE("death watch: an announced exit is reported like a death only if nonzero") {
    WorkerBench bench(2);
    auto failing = probe(bench, 0, {"announce-exit", "3", (bench.folder() / "one").string()});
    auto succeeding = probe(bench, 1, {"announce-exit", "0", (bench.folder() / "two").string()});
    bench.start({failing, succeeding});
    await_line(bench.folder() / "one");
    await_line(bench.folder() / "two");
    bench.run_to_first_event();
    bench.group().stop(SIGKILL, 0ms);
    bench.run_to_end();
    REQUIRE(bench.history().dying.size() == 1);
    CHECK(bench.history().dying[0].rank == 0);
  }

  TEST_CASE("death watch: a worker that announced its failure gets no signal before SIGKILL") {
    WorkerBench bench;
    const auto ready = bench.folder() / "ready";
    bench.start({probe(bench, 0, {"announce-exit", "3", ready.string()})});
    await_line(ready);
    bench.run_to_first_event();
    bench.group().stop(SIGTERM, 200ms);
    bench.run_to_end();
    CHECK(bench.history().killed.size() == 1);
    CHECK(bench.history().exit_of(0).signal == SIGKILL);
    CHECK_FALSE(bench.history().exit_of(0).was_stopped);
  }

  TEST_CASE("death watch: an exiting worker gets SIGCONT only if it is stopped") {
    // SIGCONT would undo the SIGSTOP of a debugger or leak checker that is attaching.
    for (const bool is_stopped : {false, true}) {
      CAPTURE(is_stopped);
      WorkerBench bench;
      const auto ready = bench.folder() / "ready";
      const auto started = bench.start({probe(
          bench, 0, {"announce-and-go", "3", is_stopped ? "stopped" : "running", ready.string()})});
      await_line(ready);
      bench.run_to_first_event();
      if (is_stopped) bench.run_until([&] { return process_state(started[0].pid).letter == 'T'; });
      bench.group().stop(SIGTERM, 20s);
      bench.group().forward(SIGWINCH);
      bench.run_to_end();
      CHECK(bench.history().killed.empty());
      CHECK(bench.history().exit_of(0).exit_code == (is_stopped ? 50 : 3));
    }
  }

  TEST_CASE("death watch: a worker that calls exec is not reported dead") {
    WorkerBench bench;
    const auto ready = bench.folder() / "ready";
    bench.start({probe(bench, 0, {"become-sleep", ready.string()})});
    await_line(ready);
    bench.group().stop(SIGTERM, 20s);
    bench.run_to_end();
    CHECK(bench.history().dying.empty());
    CHECK(bench.history().exit_of(0).was_stopped);
  }
}

}  // namespace death_watch_test
