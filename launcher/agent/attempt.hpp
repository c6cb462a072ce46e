// One life of this node's workers: started together, watched, all stopped when one fails, and what
// they left swept up. Knows nothing of other attempts or other nodes; what follows is decided
// elsewhere. Runs on the agent's one thread.
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

/// What attempts are made with: the same for all of a run. Everything outlives the attempts.
struct AttemptSurroundings {
  boost::asio::any_io_executor executor;
  const LaunchPlan& plan;
  RunFolder& folder;
  Containment& containment;
  OutputRouter& router;
  EventSink& events;
};

/// How an attempt ended on this node.
struct AttemptEnd {
  /// Every worker, in the order in which their deaths were noticed; or the one that could not be
  /// started, with the others stopped.
  std::vector<WorkerExited> exits;
  /// Why the run must end: an error at the start that cannot pass.
  std::optional<WorkerNotStarted> not_started;
  bool have_workers_started = false;
  /// How far each had come in its collectives when the first failure was noticed.
  std::vector<RankFlights> flights{};
  /// Describes the processes that could not be killed; nothing: all have ended.
  std::optional<std::string> still_running{};
};

class Attempt {
 public:
  /// Gets the reason as soon as a worker has failed and the others are being stopped, or when one
  /// crashes that was asked to stop.
  using FailureNotice = std::function<void(const std::string& reason)>;

  /// `facts` without what the attempt makes itself: control page and folders.
  Attempt(const AttemptSurroundings& surroundings, AttemptFacts facts, FailureNotice notice = {});
  ~Attempt();

  /// To be called once. Returns when nothing is left of the workers.
  boost::asio::awaitable<AttemptEnd> run();

  // The following may be called at any time and do nothing before and after the workers' life.
  // Those that stop the workers also end the retries of their start.

  void forward(int signal);

  /// Tells of the stacks of all workers, which go on. False if there are none.
  bool take_stacks(const std::string& reason);

  /// Asks all workers to stop and kills what is left after `grace`. Their collectives go on until
  /// one of them crashes.
  void stop(int signal, std::chrono::milliseconds grace);

  /// The attempt is over for a reason that lies outside of this node: tells the workers' runtimes
  /// and stops them as after a failure, or kills them.
  void abort(const std::string& reason, bool at_once);

  /// The attempt is over although all is well, here and elsewhere: stops the workers, whose
  /// collectives go on until one of them crashes.
  void wind_up(const std::string& reason);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
