// Samples the workers of an attempt once a second and reports hangs and slow ranks. Runs on the
// agent's thread.
#pragma once

#include "launcher/agent/hang_detector.hpp"
#include "launcher/agent/slow_ranks.hpp"
#include "launcher/process/background_search.hpp"
#include "launcher/process/limit_timer.hpp"
#include "launcher/process/worker_group.hpp"
#include "launcher/report/event.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

class WorkerWatch {
 public:
  struct Listener {
    /// Receives a finding, a description of each of its ranks, and the connections that may be its
    /// cause.
    std::function<void(const HangFinding&, std::vector<MissingRank>,
                       std::vector<StalledConnection>)>
        on_finding;
    /// Receives a rank that has become slow or recovered, and a description of its activity; empty:
    /// unknown.
    std::function<void(const SlowRank&, std::string doing)> on_slow_rank;
    /// Receives the activity of this node's ranks when it has changed. Called only if other nodes
    /// have ranks.
    std::function<void(const membership::RankActivity&)> on_activity;
  };

  /// Starts to watch. `group` outlives this object.
  WorkerWatch(const boost::asio::any_io_executor& executor, WorkerGroup& group,
              const HangDetector::Settings& settings, Listener listener);

  void stop();

  /// Sets the last HeartbeatAnswer::activity.
  void set_others_activity(const membership::RankActivity& activity);

 private:
  void start_timer();
  void observe();
  void find_connections(const HangFinding& finding, std::vector<WorkerSample> workers);
  void report(const HangFinding& finding, std::vector<MissingRank> ranks,
              std::vector<StalledConnection> connections);
  void add_waiting_code(std::vector<WorkerSample>& workers);
  static bool is_captured_since(const WorkerSample& worker,
                                const std::vector<WorkerSample>& current);
  void report_slow_ranks(const std::vector<WorkerSample>& workers);
  void note(const membership::RankActivity& activity);

  boost::asio::any_io_executor executor_;
  WorkerGroup& group_;
  HangDetector detector_;
  SlowRankDetector slow_ranks_;
  Listener listener_;
  bool has_other_ranks_;
  membership::RankActivity activity_;  ///< last value given to listener_.on_activity
  bool is_stopped_ = false;
  std::vector<WorkerSample> inspected_;       ///< with the code in which they waited
  std::unique_ptr<BackgroundSearch> search_;  ///< null unless samples are being inspected
  std::unique_ptr<BackgroundSearch> connection_search_;  ///< null unless connections are searched
  LimitTimer timer_;
};

}  // namespace ddprun
