#include "rendezvous/base/local_workers.hpp"
#include "rendezvous/base/signal_name.hpp"
#include "rendezvous/control/control_page.hpp"
#include "rendezvous/control/flight_recorder.hpp"
#include "rendezvous/store/store_thread.hpp"
#include "worker_runtime/parallelism/child_processes.hpp"
#include <ddprun/spawn.hpp>

#include <algorithm>
#include <chrono>
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

// Time for a rank whose failure others have noticed to end.
constexpr auto kCulpritGrace = std::chrono::seconds(1);
// Interval of checks for groups that are created after a worker has ended.
constexpr auto kGroupCheckInterval = std::chrono::milliseconds(100);

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

/// Returns the group that the rank creates with `other`, which has not created it and cannot any
/// more; null if none. Groups of `other` may not have been recorded if there are many.
const control::GroupFlightRecord* awaited_group(const control::WorkerFlights& own, int other,
                                                const control::WorkerFlights& others, int workers) {
  if (others.unrecorded_groups > 0 || others.groups.size() >= control::kFlightGroupsMax)
    return nullptr;
  for (const auto& group : own.groups) {
    const auto& members = group.members;
    // The members of large subgroups are not recorded.
    const bool is_member = members.empty()
                               ? group.size == workers
                               : std::find(members.begin(), members.end(), other) != members.end();
    const bool is_created =
        std::any_of(others.groups.begin(), others.groups.end(),
                    [&group](const auto& created) { return created.name == group.name; });
    if (group.state == control::GroupState::meeting && is_member && !is_created) return &group;
  }
  return nullptr;
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
      const auto end = children_.wait(next_check());
      if (end) {
        note(*end);
      } else if (deadline_.passed() && last_signal_ != 0) {
        kill();
      } else if (deadline_.passed()) {
        late_ = "spawn: rank(s) " + list(children_.running()) + " had not ended " +
                deadline_.describe();
        stop({.rank = -1, .reason = "the time limit of spawn() has passed"});
      } else if (last_signal_ == 0 && culprit_deadline_.passed()) {
        stop({.rank = -1, .reason = describe(*victim_)});
      }
      if (last_signal_ == 0) check_created_groups();
    }
  }

  /// Throws the workers' failure, if any.
  void check() const {
    if (!late_.empty()) throw Error(Errc::timeout, late_);
    if (early_rank_) throw WorkerFailed(*early_rank_, 0, 0, "spawn: " + early_);
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

  bool is_running(int rank) const {
    const auto running = children_.running();
    return std::find(running.begin(), running.end(), rank) != running.end();
  }

  Deadline next_check() const {
    auto next = last_signal_ == 0 && culprit_deadline_.time() < deadline_.time() ? culprit_deadline_
                                                                                 : deadline_;
    if (last_signal_ != 0 || ended_well_.empty()) return next;
    const auto soon = Deadline::after(kGroupCheckInterval);
    return soon.time() < next.time() ? soon : next;
  }

  /// Ranks that create a group with a rank that has ended would wait for join_timeout.
  void check_created_groups() {
    const auto now = control::FlightRecorder::Clock::now();
    for (const int ended : ended_well_) {
      std::vector<int> waiting;
      std::string group;
      const auto others = control::read_flights(page_, ended, now);
      for (const int rank : children_.running()) {
        const auto own = control::read_flights(page_, rank, now);
        const auto* const awaited = awaited_group(own, ended, others, page_.local_world_size());
        if (awaited == nullptr) continue;
        waiting.push_back(rank);
        group = awaited->name;
      }
      if (waiting.empty()) continue;
      early_rank_ = ended;
      early_ = "rank " + std::to_string(ended) + " exited with code 0 before it created group \"" +
               group + "\", where rank(s) " + list(waiting) + " wait for it";
      return stop({.rank = ended, .reason = early_});
    }
  }

  /// The exit of a process with much memory takes long, so ranks that depend on it may end earlier.
  /// The rank that they name gets some time to end by itself, with its message.
  void note(const ChildEnd& end) {
    const bool is_ours = last_signal_ != 0 && (end.signal == SIGTERM || end.signal == last_signal_);
    if (end.is_success()) ended_well_.insert(end.number);
    if (end.is_success() || is_ours) return;
    auto& first = end.is_victim ? victim_ : culprit_;
    if (!first) first = end;
    if (last_signal_ != 0) return;
    if (!end.is_victim) return stop({.rank = end.number, .reason = describe(end)});
    if (!is_running(end.peer)) return stop({.rank = -1, .reason = describe(end)});
    if (culprit_deadline_.is_never()) culprit_deadline_ = Deadline::after(kCulpritGrace);
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
  Deadline culprit_deadline_ = Deadline::never();  ///< for the rank that a victim has named
  int last_signal_ = 0;                            ///< last signal sent to all workers
  std::string late_;
  std::optional<int> early_rank_;  ///< rank that ended while others created a group with it
  std::string early_;
  std::optional<ChildEnd> culprit_;
  std::optional<ChildEnd> victim_;
  std::set<int> ended_well_;
};

}  // namespace

void spawn(const std::function<void(const WorkerEnv&)>& function, int workers,
           const SpawnOptions& options) {
  if (!function) refuse_spawn("the function is empty; pass one");
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
