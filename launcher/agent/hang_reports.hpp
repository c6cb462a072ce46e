// Reports hangs, slow ranks and slow links of this node and of others during an attempt, and takes
// the stacks of a hang. Runs on the agent's thread.
#pragma once

#include "launcher/agent/hang_detector.hpp"
#include "launcher/agent/slow_links.hpp"
#include "launcher/agent/slow_ranks.hpp"
#include "launcher/plan/launch_plan.hpp"
#include "launcher/process/limit_timer.hpp"
#include "launcher/process/worker_group.hpp"
#include "launcher/report/event.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun {

class HangReports {
 public:
  struct Settings {
    int attempt = 0;
    OnHang on_hang = OnHang::report;
    bool has_restarts = true;  ///< restarts are left
    bool takes_stacks = true;
  };

  struct Listener {
    /// Reports the collectives in which ranks wait.
    std::function<void()> report_collectives;
    /// Receives a hang of this node's ranks, and its end. May be empty.
    std::function<void(const membership::HangNotice&)> on_hang;
    /// Receives a rank or link of this node that has become slow or recovered. May be empty.
    std::function<void(const membership::SlowRankNotice&)> on_slow_rank;
    /// Receives the stacks of a hang; an empty list if this node takes none. If the function is
    /// empty, they are reported.
    std::function<void(std::vector<StacksTaken>)> on_hang_stacks;
  };

  /// `group` and `events` outlive this object.
  HangReports(const boost::asio::any_io_executor& executor, WorkerGroup& group, EventSink& events,
              const Settings& settings, Listener listener);

  /// Reports a finding about this node; `ranks` describes its ranks. Returns the action: with
  /// OnHang::report stacks are being taken, otherwise stop() of the group will take them.
  OnHang take(const HangFinding& finding, std::vector<MissingRank> ranks,
              std::vector<StalledConnection> connections);

  /// Reports stacks, or passes them to on_hang_stacks.
  void take(const StacksCaptured& captured);

  /// Reports a slow or recovered rank of this node.
  void take(const SlowRank& slow, std::string doing);

  /// Reports a slow or recovered link from this node.
  void take(const SlowLink& link);

  /// Reports a hang of another node's ranks or its end. If `may_capture`, takes stacks that are
  /// available quickly: now, or in stop() of the group if the hang ends the round.
  void note(const membership::HangNotice& notice, bool may_capture);

  /// Reports a slow or recovered rank or link of another node, or of this one if `notice` names
  /// none.
  void note(const membership::SlowRankNotice& notice);

 private:
  bool lacks_restarts(const HangFinding& finding) const;
  void notify_others(const membership::HangNotice& notice);
  void take_stacks(std::optional<std::vector<int>> hung);
  void take_stacks_unless_paused(std::optional<std::vector<int>> hung);
  void report_end(const HangFinding& finding, std::vector<MissingRank> ranks);
  void report_and_notify(const membership::SlowRankNotice& notice);
  void report(const Event& event) const;

  WorkerGroup& group_;
  EventSink& events_;
  Settings settings_;
  Listener listener_;
  LimitTimer pause_;                  ///< runs after a capture of stacks
  bool is_capturing_ = false;         ///< the stacks of a hang
  bool is_reported_ = false;          ///< this node's hang, which has not ended
  bool has_notified_others_ = false;  ///< of this node's hang, which has not ended
  std::set<std::string> hung_nodes_;  ///< other nodes that have found the cause of a hang
};

}  // namespace ddprun
