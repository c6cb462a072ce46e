// Samples the workers of an attempt once a second and passes hangs on. Runs on the agent's thread.
#pragma once

#include "launcher/agent/hang_detector.hpp"
#include "launcher/process/background_search.hpp"
#include "launcher/process/limit_timer.hpp"
#include "launcher/process/worker_group.hpp"
#include "launcher/report/event.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace ddprun {

class HangWatch {
 public:
  struct Listener {
    /// Receives a finding and a description of each of its ranks.
    std::function<void(const HangFinding&, std::vector<MissingRank>)> on_finding;
    /// Receives HangDetector::ranks_wait() while it is not 0, and when it becomes 0. Called only if
    /// other nodes have ranks.
    std::function<void(std::chrono::milliseconds time)> on_wait;
  };

  /// Starts to watch. `group` outlives this object.
  HangWatch(const boost::asio::any_io_executor& executor, WorkerGroup& group,
            const HangDetector::Settings& settings, Listener listener);

  void stop();

  void set_others_wait(std::chrono::milliseconds time) { detector_.set_others_wait(time); }

 private:
  void start_timer();
  void observe();
  void add_waiting_code(std::vector<WorkerSample>& workers);
  void note_wait(std::chrono::milliseconds time);

  boost::asio::any_io_executor executor_;
  WorkerGroup& group_;
  HangDetector detector_;
  Listener listener_;
  bool has_other_ranks_;
  std::chrono::milliseconds wait_{0};  ///< last value given to listener_.on_wait
  bool is_stopped_ = false;
  std::vector<WorkerSample> inspected_;       ///< with the code in which they waited
  std::unique_ptr<BackgroundSearch> search_;  ///< null unless samples are being inspected
  LimitTimer timer_;
};

}  // namespace ddprun
