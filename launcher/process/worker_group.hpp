// The worker processes of one attempt on this node: started together, watched, stopped together,
// and nothing of them left when it is over. Runs on the agent's one thread (the thread that forks
// must live as long as the workers: the parent-death signal is tied to it).
#pragma once

#include "launcher/output/output_router.hpp"
#include "launcher/process/containment.hpp"
#include "launcher/process/start_retry.hpp"
#include "launcher/process/sweep.hpp"
#include "launcher/report/event.hpp"
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
  std::map<std::string, std::string> environment;  ///< laid over the agent's own
  std::vector<std::string> removed_variables{};    ///< not inherited from the agent
  std::filesystem::path folder;                    ///< to run in; empty: the agent's
  std::vector<int> cpus;                           ///< affinity; empty: the agent's
  int memory_node = -1;                            ///< NUMA node to prefer; -1: as the agent's
  std::uint64_t open_files_max = 0;                ///< soft limit; 0: the agent's
  StreamSpec standard_output;
  StreamSpec standard_error;
  HeldPath error_file;   ///< read after a failure; may be missing. Its folder exists.
  HeldPath stacks_file;  ///< for stacks; empty: they are told of only
  bool inherits_standard_input = false;  ///< the agent's; otherwise it is empty
};

/// What next() tells.
struct GroupsChanged {};  ///< a worker makes a process group after another one has ended well
struct NothingLeft {};    ///< every worker has ended and been reaped
using WorkerNews =
    std::variant<WorkerDying, WorkerExited, WorkersKilled, StacksTaken, GroupsChanged, NothingLeft>;

class WorkerGroup {
 public:
  using StartResult = std::variant<std::vector<WorkerStarted>, WorkerNotStarted>;

  /// `page` has a slot for each local rank; workers inherit its descriptor under the same number.
  /// `containment` and `router` outlive the group.
  WorkerGroup(boost::asio::any_io_executor executor, int attempt, Containment& containment,
              OutputRouter& router, control::ControlPage page, Log log = {},
              const StackPlan& stacks = {.when = StacksWhen::never}, KilledLimits limits = {});
  ~WorkerGroup();  ///< kills what is left, waiting at most 1 s for its end

  /// Starts all and returns when each is past exec, in order of local rank. Workers that could not
  /// be started are retried as `retry` decides while the others keep running; if that ends in
  /// failure, kills the others and returns the first failure. If stop() or retry.end() is called
  /// meanwhile, no others are started than had been by then. To be called once.
  [[nodiscard]] boost::asio::awaitable<StartResult> start(std::vector<WorkerSpec> workers,
                                                          StartRetry& retry);

  /// The next thing that happens. WorkerDying comes at most once for a worker and before its
  /// WorkerExited, as soon as the kernel knows; WorkerExited exactly once, after its output has
  /// been read to the end (or 1 s after its death if a descendant keeps the pipe open).
  boost::asio::awaitable<WorkerNews> next();

  /// Sends `signal` to each live worker's process group; to workers that are being started, when
  /// they are.
  void forward(int signal);

  /// Asks all to stop: `signal` and SIGCONT to each process group now, SIGKILL to all that is left
  /// after `grace`. What ends from now on is marked was_stopped, unless its death had been noticed
  /// before; such a worker is not signalled (only continued if it is stopped), but killed like the
  /// others if it does not end. Nor is a worker marked that has recorded an error in its file: it
  /// had failed already. A second call with a shorter grace shortens it. If the plan says so,
  /// stacks are taken before the signal or before SIGKILL, which delays these by some seconds at
  /// most; never without a grace.
  void stop(int signal, std::chrono::milliseconds grace);

  /// Ranks of the workers that have not ended.
  std::vector<int> running() const;

  /// How far each worker has come in its collectives, the dead ones included. Empty if none has
  /// any.
  std::vector<RankFlights> flights();

  /// Tells of the stacks of all workers by StacksTaken; they go on.
  void take_stacks(const std::string& reason);

  /// These ranks kept others waiting until a timeout. Unless the plan takes no stacks, stop() takes
  /// theirs before the signal. To be called before abort().
  void note_late(std::vector<int> ranks);

  /// Marks the attempt aborted for the workers' runtimes, naming the culprit; not before the stacks
  /// have been taken if stop() is to take them.
  void abort(int rank, const std::string& reason);

  /// After NothingLeft: ends descendants that outlived their workers (other sessions included), by
  /// SIGTERM and after 1 s by SIGKILL, and returns once they are gone or the limits for killed
  /// processes have passed. Those that ignore SIGTERM and have ended by themselves are not
  /// returned. If stop() is called while they are asked, they are killed at once.
  boost::asio::awaitable<Swept> sweep();

  class Impl;

 private:
  std::shared_ptr<Impl> impl_;  ///< shared with the coroutines that watch the workers
};

}  // namespace ddprun
