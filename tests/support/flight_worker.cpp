// A worker whose ranks diverge in their collectives:
//   flight_worker BACKEND stop|late|kill|mismatch|message|meet|end|end-early
//   flight_worker BACKEND throw|throw-entered|throw-apart
//   flight_worker BACKEND end-first EVENTS
//   flight_worker BACKEND hang-stop|hang-sleep|hang-loop
//   flight_worker BACKEND hang-read FILE
//   flight_worker BACKEND slow FACTOR FILE
//   stop      the last rank stops itself after a barrier; the others wait for it in an all_reduce
//   late      the same, but it waits for a signal, in a function of its own
//   kill      the same, but it is killed
//   mismatch  rank 1 calls a broadcast, the others call an all_reduce
//   message   rank 0 waits for a message that the last rank does not send, the others for rank 0
//   meet      the last rank does not create the group
//   end       the last rank returns after the barrier; the others wait for it in an all_reduce
//   end-early  the same before it creates the group
//   end-first  the same, and the others create the group once ddprun has written into its file
//              EVENTS that it has exited
//   hang-stop  in the first attempt, the last rank stops itself after some steps, while the others
//              wait for it without a timeout; later attempts take the steps and end
//   hang-sleep  the same, but it sleeps
//   hang-loop  the same, but it computes
//   hang-read FILE  the same, but it reads the file
//   slow      ranks sleep for 40 ms between barriers, the last one FACTOR times as long until FILE
//             exists; the run ends on SIGTERM
//   throw     rank 1 has a call queued when an exception ends it; the others wait for it
//   throw-entered  the same with a call that has begun
//   throw-apart  the same in a subgroup
#include "rendezvous/control/flight_recorder.hpp"
#include <ddprun/process_group.hpp>
#include <ddprun/worker.hpp>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace ddprun;

constexpr std::size_t kElements = 6'553'600;  // 25 MiB of float32

/// Waits until `rank`, which is on this node and has created its group, has entered this number of
/// collectives.
void await_entered(const WorkerEnv& env, int rank, std::uint64_t collectives) {
  const auto page = control::ControlPage::attach_again(*env.control_page_fd, env.control_page_slot);
  const auto deadline = Deadline::after(std::chrono::seconds(60));
  const auto entered = [&] {
    return control::read_flights(page, rank, Deadline::Clock::now()).groups.at(0).entered;
  };
  while (entered() < collectives) {
    if (deadline.passed()) throw Error(Errc::timeout, "a rank has not entered its collective");
    std::this_thread::yield();
  }
}

/// Calls of all ranks can end only because of rank 1.
int throw_with_call_under_way(const WorkerEnv& env, const GroupOptions& options,
                              const std::string& how) {
  float value = 1;  // while a group with a pending call may exist
  auto group = ProcessGroup::create(env, options);
  if (how == "throw-apart") {
    std::vector<int> all(static_cast<std::size_t>(group.size()));
    std::iota(all.begin(), all.end(), 0);
    group = group.new_group(all).value();
  }
  const Buffer buffer = as_buffer(&value, 1);
  if (group.rank() == 1) {
    const Work work = group.all_reduce(buffer);
    if (how == "throw-entered") await_entered(env, 1, 1);
    throw std::runtime_error("loss is nan");
  }
  group.recv(buffer, 1).wait();
  return 0;
}

/// The others wait until the exit of the last rank is detected.
void await_last_end(const WorkerEnv& env, const char* events) {
  const std::string end =
      "\"event\":\"worker_exited\",\"attempt\":0,\"rank\":" + std::to_string(env.world_size - 1) +
      ",";
  const auto deadline = Deadline::after(std::chrono::seconds(60));
  std::string text;
  while (text.find(end) == std::string::npos) {
    if (deadline.passed()) throw Error(Errc::timeout, "no event tells of the last rank's end");
    std::this_thread::yield();
    std::ifstream file(events);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
}

volatile int sink = 0;

__attribute__((noinline)) void compute_for_long() {
  while (true) {
    ::pause();
    sink = sink + 1;
  }
}

__attribute__((noinline)) void loop_forever() {
  while (true) sink = sink + 1;
}

int hang_once(const std::string& how, const char* file, const WorkerEnv& env, ProcessGroup& group) {
  constexpr int kSteps = 40;
  for (int step = 0; step < kSteps; ++step) group.barrier().wait();
  const bool hangs = env.rank + 1 == env.world_size && env.restart_count == 0;
  if (hangs && how == "hang-stop") std::raise(SIGSTOP);
  if (hangs && how == "hang-sleep") compute_for_long();
  if (hangs && how == "hang-loop") loop_forever();
  if (hangs && how == "hang-read") std::ifstream(file).get();
  group.barrier().wait();
  return 0;
}

/// Computes for a moment as well, since a main thread that never runs does not do a rank's work.
int make_slow_steps(double factor, const std::string& file, const WorkerEnv& env,
                    ProcessGroup& group) {
  constexpr std::chrono::milliseconds kComputed(2);
  constexpr double kSlept = 38'000;  // microseconds
  const bool is_last = env.rank + 1 == env.world_size;
  while (true) {
    const auto end = Deadline::Clock::now() + kComputed;
    while (Deadline::Clock::now() < end) sink = sink + 1;
    const bool is_slow = is_last && !std::filesystem::exists(file);
    ::usleep(static_cast<useconds_t>(is_slow ? factor * kSlept : kSlept));
    group.barrier().wait();
  }
}

int come_apart(const std::string& how, const WorkerEnv& env, ProcessGroup& group) {
  const bool is_last = env.rank + 1 == env.world_size;
  std::vector<float> values(kElements);
  const Buffer buffer = as_buffer(values.data(), values.size());
  group.barrier().wait();
  const bool is_awaited = how == "stop" || how == "kill" || how == "late";
  for (int rank = 0; is_last && is_awaited && rank < env.rank; ++rank) await_entered(env, rank, 2);
  if (is_last && how == "stop") std::raise(SIGSTOP);
  if (is_last && how == "late") compute_for_long();
  if (is_last && how == "kill") std::raise(SIGKILL);
  if (is_last && how == "message") ::pause();
  if (is_last && how == "end") return 0;
  if (env.rank == 0 && how == "message")
    group.recv(as_buffer(values.data(), 1), env.world_size - 1, 7).wait();
  if (env.rank == 1 && how == "mismatch") {
    group.broadcast(as_buffer(values.data(), 10), 0).wait();
  } else {
    group.all_reduce(buffer).wait();
  }
  return 0;
}

}  // namespace

int main(int, char** argv) {
  return run_worker([&](const WorkerEnv& env) {
    const std::string how = argv[2];
    GroupOptions options{.backend = argv[1]};
    options.arena_bytes = 64 << 20;
    // Longer than the test takes.
    if (how.starts_with("throw")) return throw_with_call_under_way(env, options, how);
    if (how.starts_with("end-") && env.rank + 1 == env.world_size) return 0;
    if (how == "end-first") await_last_end(env, argv[3]);
    const bool hangs = how.starts_with("hang");
    if (!hangs && how != "slow" && !how.starts_with("end"))
      options.collective_timeout = std::chrono::seconds(2);
    if (how == "meet") options.join_timeout = std::chrono::seconds(2);
    if (how == "meet" && env.rank + 1 == env.world_size) ::pause();
    auto group = ProcessGroup::create(env, options);
    if (hangs) return hang_once(how, argv[3], env, group);
    if (how == "slow") return make_slow_steps(std::stod(argv[3]), argv[4], env, group);
    return come_apart(how, env, group);
  });
}
