// One attempt on this node: starts the workers together, watches them, stops all when one fails,
// and stops the processes that they leave behind. Independent of other attempts and nodes; the
// caller decides what follows. Runs on the agent's thread.
#pragma once

#include "launcher/agent/run_folder.hpp"
#include "launcher/agent/worker_specs.hpp"
#include "launcher/output/output_router.hpp"
#include "launcher/plan/launch_plan.hpp"
#include "launcher/process/containment.hpp"
#include "launcher/report/event.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

class PreloadedPython;

/// Arguments that all attempts of a run share. All members outlive the attempts.
struct AttemptContext {
  boost::asio::any_io_executor executor;
  const LaunchPlan& plan;
  RunFolder& folder;
  Containment& containment;
  OutputRouter& router;
  EventSink& events;
  PreloadedPython* python = nullptr;  ///< null: workers start by exec
};

/// Result of an attempt on this node.
struct AttemptEnd {
  /// All workers in the order in which their deaths were detected. If a worker could not be
  /// started: that worker, and the others, which were stopped.
  std::vector<WorkerExited> exits;
  /// Permanent start error that must end the run.
  std::optional<WorkerNotStarted> not_started;
  bool have_workers_started = false;
  /// Progress of each rank in its collectives when the first failure was detected.
  std::vector<RankFlights> flights{};
  /// Describes the processes that could not be killed; nullopt if all have ended.
  std::optional<std::string> still_running{};
  bool is_final = false;  ///< workers hung, and --on_hang ends the run
};

class Attempt {
 public:
  /// Empty functions are not called.
  struct Listener {
    /// Receives the reason when a worker has failed and the others are about to be stopped, or when
    /// a worker crashes after it was asked to stop.
    std::function<void(const std::string& reason)> on_failure;
    /// Called when ranks of this node hang, and when the hang ends.
    std::function<void(const membership::HangNotice&)> on_hang;
    /// Receives a rank of this node that has become slow or recovered.
    std::function<void(const membership::SlowRankNotice&)> on_slow_rank;
    /// Receives the stacks of a hang. If empty, the attempt reports them.
    std::function<void(std::vector<StacksTaken>)> on_hang_stacks;
    /// Receives the activity of this node's ranks when it has changed, at most once a second.
    std::function<void(const membership::RankActivity&)> on_activity;
  };

  /// `facts` lack the control page and the folders, which the attempt creates.
  Attempt(const AttemptContext& context, AttemptFacts facts, Listener listener);
  ~Attempt();

  /// Runs the attempt. Returns when all worker processes have ended or were given up. Call once.
  boost::asio::awaitable<AttemptEnd> run();

  // The following functions may be called at any time, and do nothing while no workers run.
  // Functions that stop the workers also stop retries to start them.

  void forward(int signal);

  /// Sets the last HeartbeatAnswer::activity, to detect hangs and slow ranks.
  void set_others_activity(const membership::RankActivity& activity);

  /// Reports a hang or a slow rank of another node; see HangReports::note().
  void note_hang(const membership::HangNotice& notice);
  void note_slow_rank(const membership::SlowRankNotice& notice);

  /// Reports the stacks of all workers, which continue to run. Returns false if there are no
  /// workers.
  bool take_stacks(const std::string& reason);

  /// Asks all workers to stop, and kills the remaining ones after `grace`. Their collectives
  /// continue unless a worker crashes.
  void stop(int signal, std::chrono::milliseconds grace);

  /// Ends the attempt for a cause outside this node: aborts the collectives and stops the workers
  /// like after a failure. If `at_once`, kills the workers.
  void abort(const std::string& reason, bool at_once);

  /// Ends the attempt without a failure: stops the workers, whose collectives continue unless a
  /// worker crashes.
  void stop_gracefully(const std::string& reason);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
