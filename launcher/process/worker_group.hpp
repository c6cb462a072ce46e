// The worker processes of one attempt on this node: starts, watches and stops them together, and
// leaves no process behind. Runs on the agent's thread, since the workers' parent-death signal is
// bound to the thread that forks them.
#pragma once

#include "launcher/output/output_router.hpp"
#include "launcher/process/containment.hpp"
#include "launcher/process/start_retry.hpp"
#include "launcher/process/sweep.hpp"
#include "launcher/process/worker_sample.hpp"
#include "launcher/report/event.hpp"
#include "launcher/stacks/stack_means.hpp"
#include "rendezvous/base/held_path.hpp"
#include "rendezvous/control/control_page.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ddprun {

/// One process to start.
struct WorkerSpec {
  int rank = 0;
  int local_rank = 0;
  std::vector<std::string> arguments;              ///< program (a path) first
  std::map<std::string, std::string> environment;  ///< overrides the agent's
  std::vector<std::string> removed_variables{};    ///< not inherited from the agent
  std::filesystem::path folder;                    ///< working directory; empty: the agent's
  std::vector<int> cpus;                           ///< affinity; empty: the agent's
  int memory_node = -1;                            ///< preferred NUMA node; -1: the agent's policy
  std::uint64_t open_files_max = 0;                ///< soft limit; 0: the agent's
  StreamSpec standard_output;
  StreamSpec standard_error;
  HeldPath error_file;   ///< read after a failure; may be missing. Its folder exists.
  HeldPath stacks_file;  ///< for stacks; empty: events only
  bool inherits_standard_input = false;  ///< the agent's; otherwise /dev/null
};

/// Results of next().
struct GroupsChanged {};  ///< a worker creates a process group after another one has succeeded
struct AllExited {};      ///< all workers have ended and been reaped
/// The end of a capture of stacks.
struct StacksCaptured {
  std::vector<StacksTaken> stacks;  ///< grouped
  /// Of PyTorch's flight recorders, as far as the workers have a thread that reads them.
  std::vector<RankFlights> flights{};
  bool is_hang = false;  ///< see StackScope
};
using WorkerEvent = std::variant<WorkerDying, WorkerExited, WorkersKilled, StacksCaptured,
                                 GroupsChanged, AllExited>;

class PreloadedPython;

class WorkerGroup {
 public:
  using StartResult = std::variant<std::vector<WorkerStarted>, WorkerNotStarted>;

  /// `page` has a slot for each local rank; workers inherit its descriptor under the same number.
  /// `containment`, `router` and `python` outlive the group; without the last one, all workers
  /// start by exec.
  WorkerGroup(boost::asio::any_io_executor executor, int attempt, Containment& containment,
              OutputRouter& router, control::ControlPage page, Log log = {},
              const StackPlan& stacks = {.when = StacksWhen::never}, KilledLimits limits = {},
              PreloadedPython* python = nullptr);
  ~WorkerGroup();  ///< kills the remaining workers; waits at most 1 s for their end

  /// Starts all workers in order of local rank and returns once all have passed exec. Workers that
  /// could not be started are retried as `retry` decides, while the others keep running; if the
  /// retries fail, kills the others and returns the first failure. Starts no further workers after
  /// stop() or retry.end(). Call once.
  [[nodiscard]] boost::asio::awaitable<StartResult> start(std::vector<WorkerSpec> workers,
                                                          StartRetry& retry);

  /// Waits for the next event. WorkerDying comes at most once for a worker and before its
  /// WorkerExited, as soon as the kernel reports the death; WorkerExited exactly once, after the
  /// worker's output has been read to the end (or 1 s after its death if a descendant keeps the
  /// pipe open).
  boost::asio::awaitable<WorkerEvent> next();

  /// Sends `signal` to the process groups of live workers; during start(), when all have started.
  void forward(int signal);

  /// Stops the workers: sends `signal` and SIGCONT to each process group now, and SIGKILL after
  /// `grace`; see StopSequence. Workers that end afterwards are marked was_stopped, except those
  /// that had already failed: their death had been detected, or they had recorded an error in their
  /// file. A dying worker gets no signal (SIGCONT if it is stopped), but is killed like the others
  /// if it does not end.
  void stop(int signal, std::chrono::milliseconds grace);

  /// Returns the ranks of the workers that have not ended.
  std::vector<int> running() const;

  /// Returns the collectives of each worker, including ended ones. Empty if no worker has a process
  /// group.
  std::vector<RankFlights> flights();

  /// Samples the workers that have not ended; see sample_of().
  std::vector<WorkerSample> sample(bool with_details) const;

  /// Marks a worker as failed because it hangs; `doing` is WorkerExited::hung. stop() kills it when
  /// the others get the signal.
  void set_hung(int rank, const std::string& doing);

  /// Takes stacks. The workers continue; next() returns StacksCaptured. Returns false if none are
  /// taken: before exec, or if a request is pending.
  bool take_stacks(const std::string& reason, StackScope scope = {});

  /// Sets the ranks whose stacks stop() takes before the signal, unless the plan takes none. Call
  /// before abort().
  void set_first_stacks(StackScope scope);

  /// Marks the attempt as aborted for the workers' runtimes, with the culprit's rank; after the
  /// stacks if stop() is to take them before the signal.
  void abort(int rank, const std::string& reason);

  /// After AllExited: ends descendants that outlived their workers (other sessions included) by
  /// SIGTERM and, after 1 s, by SIGKILL. Returns when they have ended or the limits for killed
  /// processes have passed. stop() ends the wait after SIGTERM.
  boost::asio::awaitable<Swept> sweep();

  class Impl;

 private:
  std::shared_ptr<Impl> impl_;  ///< shared with the coroutines that watch the workers
};

}  // namespace ddprun
