// Samples the workers of an attempt once a second and passes hangs on. Runs on the agent's thread.
#pragma once

#include "launcher/agent/hang_detector.hpp"
#include "launcher/process/limit_timer.hpp"
#include "launcher/process/worker_group.hpp"
#include "launcher/report/event.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <vector>

namespace ddprun {

class HangWatch {
 public:
  /// Receives a finding and a description of each of its ranks.
  using OnFinding = std::function<void(const HangFinding&, std::vector<MissingRank>)>;

  /// Starts to watch. `group` outlives this object.
  HangWatch(const boost::asio::any_io_executor& executor, WorkerGroup& group,
            const HangDetector::Settings& settings, OnFinding on_finding);

  void stop() { timer_.cancel(); }

 private:
  void start_timer();
  void observe();

  WorkerGroup& group_;
  HangDetector detector_;
  OnFinding on_finding_;
  LimitTimer timer_;
};

}  // namespace ddprun
