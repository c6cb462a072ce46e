// Time from the SIGKILL of one of several ranks during a collective until the calls of the others
// have thrown PeerFailed with its rank. The ranks are plain processes without an agent.
//   kill_bench [--kills N] [--seconds N] [--ranks N] [--gib N] [--elements N]
// The killed rank has N GiB of touched memory, which the kernel frees before it closes sockets and
// notifies the parent.
#include "tests/bench/statistics.hpp"
#include "tests/support/test_store.hpp"
#include <ddprun/error.hpp>
#include <ddprun/process_group.hpp>

#include <CLI/CLI.hpp>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <random>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace ddprun;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

struct Options {
  int kills = 100;
  int seconds = 600;  ///< no further kill after this time
  int ranks = 4;
  std::size_t gib = 8;
  std::size_t elements = 1 << 20;
};

/// Result of a survivor: the time at which its call ended, and the named rank.
struct Report {
  Clock::time_point when;
  int rank = -1;
};

/// Pages of the usual size, as most programs have them.
void occupy(std::size_t bytes) {
  if (bytes == 0) return;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    throw_system_error("mmap of " + std::to_string(bytes) + " bytes", errno);
  ::madvise(memory, bytes, MADV_NOHUGEPAGE);
  if (::madvise(memory, bytes, MADV_POPULATE_WRITE) != 0)
    throw_system_error("touching " + std::to_string(bytes) + " bytes", errno);
}

WorkerEnv make_env(const StoreEndpoint& store, int rank, int ranks) {
  WorkerEnv env;
  env.rank = env.local_rank = rank;
  env.world_size = env.local_world_size = ranks;
  env.master_addr = store.host;
  env.master_port = store.port;
  return env;
}

/// The process of a rank: reduces until a rank dies.
Report reduce_until_failure(const WorkerEnv& env, const Options& options, int victim, int ready) {
  if (env.rank == victim) occupy(options.gib << 30);
  GroupOptions group_options{.backend = "host"};
  group_options.arena_bytes = 64 << 20;
  auto group = ProcessGroup::create(env, group_options);
  const auto memory = group.allocate(options.elements * sizeof(float));
  const Buffer buffer = as_buffer(static_cast<float*>(memory.get()), options.elements);
  group.barrier().wait();
  if (env.rank == victim && ::write(ready, "r", 1) != 1) ::_exit(1);
  try {
    while (true) group.all_reduce(buffer).wait();
  } catch (const PeerFailed& failure) {
    return {Clock::now(), failure.rank()};
  }
}

class Round {
 public:
  Round(const StoreEndpoint& store, const Options& options, int victim) : victim_(victim) {
    if (::pipe2(ready_, O_CLOEXEC) != 0 || ::pipe2(reports_, O_CLOEXEC) != 0)
      throw_system_error("pipe", errno);
    for (int rank = 0; rank < options.ranks; ++rank) pids_.push_back(start(store, options, rank));
    ::close(ready_[1]);
    ::close(reports_[1]);
  }

  /// Milliseconds of each survivor.
  std::vector<double> kill_after(std::chrono::microseconds delay) {
    char byte = 0;
    if (::read(ready_[0], &byte, 1) != 1)
      throw std::runtime_error("a rank has failed at its start");
    for (const auto until = Clock::now() + delay; Clock::now() < until;) std::this_thread::yield();
    const auto killed = Clock::now();
    ::kill(pids_[static_cast<std::size_t>(victim_)], SIGKILL);
    std::vector<double> times;
    for (Report report; ::read(reports_[0], &report, sizeof report) == ssize_t{sizeof report};) {
      if (report.rank != victim_) throw std::runtime_error("the wrong rank was blamed");
      times.push_back(std::chrono::duration<double, std::milli>(report.when - killed).count());
    }
    for (const pid_t pid : pids_) ::waitpid(pid, nullptr, 0);
    ::close(ready_[0]);
    ::close(reports_[0]);
    return times;
  }

 private:
  pid_t start(const StoreEndpoint& store, const Options& options, int rank) {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    try {
      const auto report =
          reduce_until_failure(make_env(store, rank, options.ranks), options, victim_, ready_[1]);
      ::_exit(::write(reports_[1], &report, sizeof report) == ssize_t{sizeof report} ? 0 : 1);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
      ::_exit(1);
    }
  }

  int victim_;
  int ready_[2] = {-1, -1};
  int reports_[2] = {-1, -1};
  std::vector<pid_t> pids_;
};

void print(const std::vector<double>& times) {
  std::printf("%zu survivors' calls: p50 %.2f ms  p99 %.2f ms  max %.2f ms\n", times.size(),
              bench::median(times), bench::quantile(times, 0.99), bench::quantile(times, 1));
}

void measure(const Options& options) {
  const test::TestStore store;
  std::mt19937 random(std::random_device{}());
  std::vector<double> all;
  const auto end = Clock::now() + std::chrono::seconds(options.seconds);
  int kills = 0;
  for (int i = 0; i < options.kills && Clock::now() < end; ++i, ++kills) {
    Round round(store.endpoint(), options, i % options.ranks);
    const auto times = round.kill_after(std::chrono::microseconds(random() % 20'000));
    if (times.size() + 1 != static_cast<std::size_t>(options.ranks))
      throw std::runtime_error("not every survivor got PeerFailed");
    all.insert(all.end(), times.begin(), times.end());
  }
  std::printf("%d kills of one of %d ranks with %zu GiB, all_reduce of %zu x float32\n", kills,
              options.ranks, options.gib, options.elements);
  print(all);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("From the SIGKILL of a rank in a collective until its peers know.");
  app.add_option("--kills", options.kills)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seconds", options.seconds, "no further kill after so long")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--ranks", options.ranks)->check(CLI::Range(2, 1024))->capture_default_str();
  app.add_option("--gib", options.gib, "memory of the rank that is killed")->capture_default_str();
  app.add_option("--elements", options.elements, "float32 of each all_reduce")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    measure(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
