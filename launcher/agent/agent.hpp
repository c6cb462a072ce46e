// The agent of one node: runs the workers of a plan, handles signals and returns the result of the
// run. Reports events only; prints nothing. Runs on the executor's single thread.
#pragma once

#include "launcher/agent/run_folder.hpp"
#include "launcher/output/output_router.hpp"
#include "launcher/plan/launch_plan.hpp"
#include "launcher/process/containment.hpp"
#include "launcher/report/event.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <memory>

namespace ddprun {

class Agent {
 public:
  /// All arguments outlive the agent. `events` receives all events, RunFinished last.
  Agent(boost::asio::any_io_executor executor, const LaunchPlan& plan, RunFolder& folder,
        Containment& containment, OutputRouter& router, EventSink& events);
  ~Agent();

  /// Runs the plan to its end; the plan's stop signals end it in an orderly way. Throws Error if
  /// the store cannot be started; failures after RunStarted end in a RunFinished.
  boost::asio::awaitable<RunFinished> run();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddprun
