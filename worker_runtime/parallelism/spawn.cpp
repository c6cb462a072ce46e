#include "rendezvous/base/local_workers.hpp"
#include "rendezvous/base/signal_name.hpp"
#include "rendezvous/control/control_page.hpp"
#include "rendezvous/store/store_thread.hpp"
#include "worker_runtime/parallelism/child_processes.hpp"
#include <ddprun/spawn.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace ddprun {

namespace {

using spawning::ChildEnd;
using spawning::ChildProcesses;

[[noreturn]] void refuse_spawn(const std::string& what) {
  throw Error(Errc::usage, "spawn: " + what);
}

std::ptrdiff_t count_threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

// Libraries that create threads when they are loaded, such as OpenBLAS and sanitizers, support fork
// at any time. They are loaded before this is initialised.
const std::ptrdiff_t kThreadsAtLoad = count_threads();

void check(int workers, const SpawnOptions& options) {
  if (workers < 1 || workers > kLocalWorkersMax) {
    refuse_spawn(std::to_string(workers) + " workers (1 to " + std::to_string(kLocalWorkersMax) +
                 " are possible)");
  }
  struct sigaction action {};
  ::sigaction(SIGCHLD, nullptr, &action);
  const bool is_ignored = (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
  if (is_ignored || (action.sa_flags & SA_NOCLDWAIT) != 0) {
    refuse_spawn(
        "SIGCHLD is ignored, so exits of workers cannot be detected: set it to its default first");
  }
  const auto more = count_threads() - kThreadsAtLoad;
  if (more > 0 && !options.allow_threads) {
    refuse_spawn(
        "this process has made " + std::to_string(more) +
        " thread(s), which copies of it would lack: call it before any are made (libraries may "
        "make theirs when they first compute), or see allow_threads");
  }
}

/// Also sets the environment variables, for libraries that read them.
WorkerEnv become_worker(int rank, int workers, std::uint16_t port, int page_fd) {
  WorkerEnv env;
  env.rank = env.local_rank = env.role_rank = env.control_page_slot = rank;
  env.world_size = env.local_world_size = env.role_world_size = workers;
  env.master_port = port;
  env.use_agent_store = true;
  env.control_page_fd = page_fd;
  for (const auto& [name, value] : to_environment(env)) ::setenv(name.c_str(), value.c_str(), 1);
  return env;
}

std::string describe(const ChildEnd& end) {
  const std::string worker =
      "rank " + std::to_string(end.number) + " (pid " + std::to_string(end.pid) + ") ";
  if (end.signal != 0) return worker + "was ended by " + signal_name(end.signal);
  if (!end.message.empty()) return worker + "failed: " + end.message;
  return worker + "exited with code " + std::to_string(end.exit_code);
}

/// Waits for the workers; ends all of them after the first failure or at the time limit.
class Supervision {
 public:
  Supervision(ChildProcesses& children, control::ControlPage& page, const SpawnOptions& options)
      : children_(children),
        page_(page),
        options_(options),
        deadline_(options.time_limit ? Deadline::after(*options.time_limit) : Deadline::never()) {}

  void run() {
    while (!children_.running().empty()) {
      const auto end = children_.wait(deadline_);
      if (end) {
        note(*end);
      } else if (last_signal_ == 0) {
        late_ = "spawn: rank(s) " + list(children_.running()) + " had not ended " +
                deadline_.describe();
        stop({.rank = -1, .reason = "the time limit of spawn() has passed"});
      } else {
        kill();
      }
    }
  }

  /// Throws the workers' failure, if any.
  void check() const {
    if (!late_.empty()) throw Error(Errc::timeout, late_);
    const auto& failure = culprit_ ? culprit_ : victim_;
    if (!failure) return;
    if (!culprit_ && ended_well_.contains(failure->peer)) {
      throw WorkerFailed(
          failure->peer, 0, 0,
          "spawn: rank " + std::to_string(failure->peer) +
              " exited with code 0 while others waited for it: " + describe(*failure));
    }
    throw WorkerFailed(failure->number, failure->exit_code, failure->signal,
                       "spawn: " + describe(*failure));
  }

 private:
  static std::string list(const std::vector<int>& ranks) {
    std::string text;
    for (const int rank : ranks) text += (text.empty() ? "" : ", ") + std::to_string(rank);
    return text;
  }

  /// The exit of a process with much memory takes long, so ranks that depend on it may end earlier.
  void note(const ChildEnd& end) {
    const bool is_ours = last_signal_ != 0 && (end.signal == SIGTERM || end.signal == last_signal_);
    if (end.is_success()) ended_well_.insert(end.number);
    if (end.is_success() || is_ours) return;
    auto& first = end.is_victim ? victim_ : culprit_;
    if (!first) first = end;
    if (last_signal_ == 0) stop({.rank = end.is_victim ? -1 : end.number, .reason = describe(end)});
  }

  void stop(const control::AbortRecord& record) {
    page_.abort(record);
    last_signal_ = SIGTERM;
    children_.signal(SIGTERM);
    deadline_ = Deadline::after(options_.stop_grace);
  }

  void kill() {
    last_signal_ = SIGKILL;
    children_.signal(SIGKILL);
    deadline_ = Deadline::never();
  }

  ChildProcesses& children_;
  control::ControlPage& page_;
  const SpawnOptions& options_;
  Deadline deadline_;
  int last_signal_ = 0;  ///< last signal sent to all workers
  std::string late_;
  std::optional<ChildEnd> culprit_;
  std::optional<ChildEnd> victim_;
  std::set<int> ended_well_;
};

}  // namespace

void spawn(const std::function<void(const WorkerEnv&)>& function, int workers,
           const SpawnOptions& options) {
  check(workers, options);
  auto page = control::ControlPage::create(workers);
  // Created after the last fork, since it starts a thread; outlives the workers.
  std::optional<StoreThread> store;
  ChildProcesses children;
  std::cout.flush();
  std::fflush(nullptr);
  for (int rank = 0; rank < workers; ++rank) {
    children.fork(
        [&, rank](std::uint16_t port) { function(become_worker(rank, workers, port, page.fd())); });
  }
  store.emplace();
  children.give_port(store->endpoint().port);
  Supervision supervision(children, page, options);
  supervision.run();
  supervision.check();
}

}  // namespace ddprun
