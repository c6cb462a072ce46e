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
  struct Listener {
    /// Receives a finding and a description of each of its ranks.
    std::function<void(const HangFinding&, std::vector<MissingRank>)> on_finding;
    /// Receives changes of HangDetector::are_ranks_waiting(), which is false first and last. Called
    /// only if other nodes have ranks.
    std::function<void(bool are_waiting)> on_wait;
  };

  /// Starts to watch. `group` outlives this object.
  HangWatch(const boost::asio::any_io_executor& executor, WorkerGroup& group,
            const HangDetector::Settings& settings, Listener listener);

  void stop();

  void set_others_waiting(bool are_waiting) { detector_.set_others_waiting(are_waiting); }

 private:
  void start_timer();
  void observe();
  void note_wait(bool are_waiting);

  WorkerGroup& group_;
  HangDetector detector_;
  Listener listener_;
  bool has_other_ranks_;
  bool are_waiting_ = false;  ///< last value given to listener_.on_wait
  LimitTimer timer_;
};

}  // namespace ddprun
