// The agent's thread stays responsive while workers start, descendants are killed and a killed
// worker does not end.
#include "launcher/process/cgroup.hpp"
#include "launcher/process/proc_scan.hpp"
#include "rendezvous/base/run_clock.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/agent_process.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <optional>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace liveness_test {

using namespace ddprun;
using namespace ddprun::test;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

constexpr ContainmentMode kModes[] = {ContainmentMode::automatic, ContainmentMode::marker};
constexpr KilledLimits kShortLimits{.warning_after = 50ms, .abandoned_after = 50ms};

/// A process that ends neither by SIGTERM nor by itself; writes its pid to the file.
std::string deaf(const fs::path& pid_file) {
  return "trap '' TERM; " + in_own_session(pid_file) + "while [ ! -s " + pid_file.string() +
         " ]; do sleep 0.01; done";
}

/// The freezer of cgroup version 1 blocks even SIGKILL, like a dead network file system.
class Freezer {
 public:
  static std::optional<fs::path> make_folder() {
    const fs::path folder = "/sys/fs/cgroup/freezer/test-of-ddprun-" + std::to_string(::getpid());
    std::error_code error;
    if (fs::create_directory(folder, error) && fs::exists(folder / "freezer.state", error))
      return folder;
    MESSAGE("without the freezer of cgroups' version 1");
    return std::nullopt;
  }

  Freezer(fs::path folder, const std::vector<pid_t>& pids) : folder_(std::move(folder)) {
    for (const pid_t pid : pids) write("cgroup.procs", std::to_string(pid));
    write("freezer.state", "FROZEN");
  }
  Freezer(const Freezer&) = delete;
  Freezer& operator=(const Freezer&) = delete;
  ~Freezer() {
    thaw();
    const auto deadline = Deadline::after(20s);
    while (::rmdir(folder_.c_str()) != 0 && !deadline.passed()) {
    }
  }

  void thaw() { write("freezer.state", "THAWED"); }

 private:
  void write(const char* name, const std::string& text) { std::ofstream(folder_ / name) << text; }

  fs::path folder_;
};

/// A process that traces another one and does not react to its end.
class Tracer {
 public:
  explicit Tracer(pid_t target) {
    std::array<int, 2> ends{};
    REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    const UniqueFd reader(ends[0]), writer(ends[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      const char is_tracing = ::ptrace(PTRACE_SEIZE, target, nullptr, nullptr) == 0 ? 'y' : 'n';
      if (::write(writer.get(), &is_tracing, 1) != 1) ::_exit(1);
      while (true) ::pause();  // signals such as SIGCHLD interrupt it
    }
    char answer = 0;
    REQUIRE(::read(reader.get(), &answer, 1) == 1);
    is_tracing_ = answer == 'y';
    if (!is_tracing_) MESSAGE("without permission to trace");
  }
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;
  ~Tracer() { end(); }

  bool is_tracing() const { return is_tracing_; }
  pid_t pid() const { return pid_; }

  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  pid_t pid_ = 0;
  bool is_tracing_ = false;
};

std::vector<WorkerSpec> sleeping_workers(int count) {
  std::vector<WorkerSpec> workers;
  workers.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) workers.push_back(shell_worker(i, "exec sleep 1000"));
  return workers;
}

std::vector<pid_t> pids_of(const std::vector<WorkerStarted>& started) {
  std::vector<pid_t> pids;
  pids.reserve(started.size());
  for (const auto& worker : started) pids.push_back(worker.pid);
  return pids;
}

}  // namespace

TEST_SUITE("liveness") {
  TEST_CASE("liveness: no further workers start after a stop during the start") {
    for (const auto mode : kModes) {
      constexpr int kWorkers = 200;
      WorkerBench bench(kWorkers, mode);
      const auto workers = sleeping_workers(kWorkers);
      int turns = 0;
      const auto result = bench.try_start(workers, [&] {
        if (++turns == 5) bench.group().stop(SIGTERM, 20s);
      });
      const auto& started = std::get<std::vector<WorkerStarted>>(result);
      CHECK(started.size() > 0);
      CHECK(started.size() < kWorkers);
      bench.run_to_end();
      CHECK(bench.history().killed.empty());
      REQUIRE(bench.history().exited.size() == started.size());
      for (const auto& exit : bench.history().exited) {
        CHECK(exit.signal == SIGTERM);
        CHECK(exit.was_stopped);
      }
    }
  }

  TEST_CASE("liveness: a kill request during the start kills all workers at once") {
    WorkerBench bench(50);
    const auto workers = sleeping_workers(50);
    int turns = 0;
    bench.try_start(workers, [&] {
      if (++turns == 5) bench.group().stop(SIGKILL, 0s);
    });
    bench.run_to_end();
    for (const auto& exit : bench.history().exited) CHECK(exit.signal == SIGKILL);
    CHECK(bench.history().killed.size() == 1);
  }

  TEST_CASE("liveness: a signal forwarded during the start is delivered after exec") {
    WorkerBench bench(2);
    std::vector<WorkerSpec> workers{shell_worker(0, "exec sleep 1000"),
                                    shell_worker(1, "exec sleep 1000")};
    bench.try_start(workers, [&] { bench.group().forward(SIGUSR1); });
    bench.run_to_end();
    REQUIRE(bench.history().exited.size() == 2);
    for (const auto& exit : bench.history().exited) {
      CHECK(exit.signal == SIGUSR1);
      CHECK(exit.was_forwarded);
    }
  }

  TEST_CASE("liveness: the event loop runs while descendants are being killed") {
    for (const auto mode : kModes) {
      WorkerBench bench(1, mode);
      const auto file = bench.folder() / "pid";
      bench.start({shell_worker(0, deaf(file))});
      bench.run_to_end();
      int turns = 0;
      bench.sweep([&] { ++turns; });
      // One per 50 ms; SIGTERM has a grace period of a second.
      CHECK(turns >= 5);
    }
  }

  TEST_CASE("liveness: a stop during the grace period of descendants kills them at once") {
    for (const auto mode : kModes) {
      WorkerBench bench(1, mode);
      const auto file = bench.folder() / "pid";
      bench.start({shell_worker(0, deaf(file))});
      bench.run_to_end();
      int turns = 0;
      const auto swept = bench.sweep([&] {
        if (++turns != 3) return;
        RunClock::add_suspension(1h);
        bench.group().stop(SIGINT, 20s);
      });
      CHECK(swept == std::vector<pid_t>{pid_in(file)});
      CHECK_FALSE(is_alive(pid_in(file)));
    }
  }

  TEST_CASE("liveness: a killed worker that does not end is reported like a running one") {
    const auto folder = Freezer::make_folder();
    if (!folder) return;
    WorkerBench bench(2, ContainmentMode::automatic, {.when = StacksWhen::never}, kShortLimits);
    const auto started =
        bench.start({shell_worker(0, "exec sleep 1000"), shell_worker(1, "exec sleep 1000")});
    {
      const Freezer freezer(*folder, {started[0].pid});
      // The limits are short: the other worker must have ended before.
      bench.group().stop(SIGTERM, 1h);
      bench.run_to_first_exit();
      bench.group().stop(SIGTERM, 0s);
      bench.run_to_end();
      CHECK(bench.history().exited.size() == 2);
      const auto& exit = bench.history().exit_of(0);
      CHECK(exit.signal == 0);
      CHECK(exit.failed());
      REQUIRE(exit.still_running);
      CHECK(exit.still_running->find("s after SIGKILL: state D (uninterruptible sleep)") !=
            std::string::npos);
      CHECK_FALSE(bench.history().exit_of(1).still_running);
      CHECK(is_alive(started[0].pid));
      REQUIRE(bench.log().size() == 1);
      CHECK(bench.log()[0].starts_with("rank 0 (pid " + std::to_string(started[0].pid) +
                                       ") is still running "));
      CHECK(bench.log()[0].find(" s after SIGKILL: state D") != std::string::npos);
      const auto swept = bench.sweep_all();
      CHECK(swept.ended.empty());
      CHECK(swept.left == pids_of({started[0]}));
    }
    CHECK(await_end(started[0].pid, Deadline::after(20s)));
  }

  TEST_CASE("liveness: a killed worker whose tracer does not release it is abandoned") {
    for (const auto mode : kModes) {
      WorkerBench bench(1, mode, {.when = StacksWhen::never}, kShortLimits);
      const auto started = bench.start({shell_worker(0, "exec sleep 1000")});
      const Tracer tracer(started[0].pid);
      if (!tracer.is_tracing()) return;
      bench.containment().exclude(tracer.pid());
      bench.group().stop(SIGTERM, 0s);
      bench.run_to_end();
      const auto& exit = bench.history().exit_of(0);
      CHECK(exit.failed());
      REQUIRE(exit.still_running);
      CHECK(exit.still_running->ends_with(
          "after SIGKILL: the process that traces it has not released it"));
      CHECK(bench.sweep_all().left.empty());
    }
  }

  TEST_CASE("liveness: a worker ends when its tracer releases it") {
    WorkerBench bench;
    const pid_t pid = bench.start({shell_worker(0, "exec sleep 1000")})[0].pid;
    Tracer tracer(pid);
    if (!tracer.is_tracing()) return;
    ::kill(pid, SIGKILL);
    bench.run_until([pid] { return is_zombie(pid); });
    CHECK(bench.history().exited.empty());
    tracer.end();
    bench.run_to_end();
    CHECK(bench.history().exit_of(0).signal == SIGKILL);
  }

  TEST_CASE("liveness: a killed descendant that does not end is reported with its state") {
    for (const auto mode : kModes) {
      const auto folder = Freezer::make_folder();
      if (!folder) return;
      WorkerBench bench(1, mode, {.when = StacksWhen::never}, kShortLimits);
      const auto file = bench.folder() / "pid";
      bench.start({shell_worker(0, deaf(file))});
      bench.run_to_end();
      const pid_t stray = pid_in(file);
      {
        const Freezer freezer(*folder, {stray});
        const auto swept = bench.sweep_all();
        CHECK(swept.ended.empty());
        CHECK(swept.left == std::vector<pid_t>{stray});
        REQUIRE(swept.reports.size() == 1);
        const auto text = "process " + std::to_string(stray) + " (sleep) is still running ";
        CHECK(swept.reports[0].starts_with(text));
        CHECK(swept.reports[0].find("after SIGKILL: state D") != std::string::npos);
        REQUIRE(bench.log().size() == 1);
        CHECK(bench.log()[0].starts_with(text));
      }
      CHECK(await_end(stray, Deadline::after(20s)));
    }
  }

  TEST_CASE("liveness: workers that do not end delay the group's end by one limit together") {
    const auto folder = Freezer::make_folder();
    if (!folder) return;
    constexpr int kWorkers = 40;
    std::vector<pid_t> pids;
    std::optional<Freezer> freezer;
    const auto begin = std::chrono::steady_clock::now();
    {
      WorkerBench bench(kWorkers);
      const auto workers = sleeping_workers(kWorkers);
      pids = pids_of(bench.start(workers));
      freezer.emplace(*folder, pids);
    }
    // One second of the group and one of the containment, not forty.
    CHECK(std::chrono::steady_clock::now() - begin < 20s);
    for (const pid_t pid : pids) CHECK(is_alive(pid));
    freezer.reset();
    for (const pid_t pid : pids) CHECK(await_end(pid, Deadline::after(20s)));
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
  }
}

}  // namespace liveness_test
