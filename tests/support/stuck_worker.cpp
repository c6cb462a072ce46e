// A worker with two threads that wait forever, each in a function of its own name:
//   stuck_worker runtime|plain READY_FILE [THREADS]
// With or without the worker runtime; more threads on request. SIGTERM does not end it. Or a worker
// that waits forever once rank 1 has failed:
//   stuck_worker peer
#include <ddprun/process_group.hpp>
#include <ddprun/worker.hpp>

#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

volatile int sink = 0;

void report_ready(const std::string& file) {
  if (file.empty()) return;
  std::FILE* stream = std::fopen(file.c_str(), "w");
  std::fprintf(stream, "%d\n", ::getpid());
  std::fclose(stream);
}

// Without the loops the compiler would merge these functions.
__attribute__((noinline)) void wait_in_first_thread(const std::string& ready_file) {
  report_ready(ready_file);
  while (true) {
    ::pause();
    sink = sink + 1;
  }
}

__attribute__((noinline)) void wait_in_second_thread(std::latch& arrived) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  arrived.count_down();
  while (true) {
    never.wait(lock);
    sink = sink + 2;
  }
}

int get_stuck(const std::string& ready_file, int threads) {
  ::signal(SIGTERM, SIG_IGN);
  std::latch arrived(threads - 1);
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back([&] { wait_in_second_thread(arrived); });
  arrived.wait();
  wait_in_first_thread(ready_file);
  return 0;
}

int outlive_peer(const ddprun::WorkerEnv& env) {
  auto group = ddprun::ProcessGroup::create(env);
  group.barrier().wait();
  if (env.rank == 1) return 3;
  wait_in_first_thread("");
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string how = count > 1 ? arguments[1] : "";
  if (how == "peer") return ddprun::run_worker(outlive_peer);
  const std::string ready_file = count > 2 ? arguments[2] : "";
  const int threads = count > 3 ? std::atoi(arguments[3]) : 2;
  if (how == "plain") return get_stuck(ready_file, threads);
  return ddprun::run_worker(
      [&](const ddprun::WorkerEnv&) { return get_stuck(ready_file, threads); });
}
