// What follows when all workers of an attempt have ended: pure functions, no clock, no processes.
#pragma once

#include "launcher/report/event.hpp"
#include "rendezvous/membership/restart_budget.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

using membership::RestartHistory;
using membership::RestartSettings;

/// How an attempt ended.
struct AttemptOutcome {
  std::vector<WorkerExited>
      exits;       ///< every worker, in the order in which their deaths were noticed
  int signal = 0;  ///< to the agent, that ended it; 0: none did
  /// As in AttemptEnd.
  std::optional<std::string> still_running{};
};

struct RestartDecision {
  enum class Action { finish, restart };

  Action action = Action::finish;
  RunResult result = RunResult::succeeded;  ///< of the run, if the action is finish
  std::chrono::milliseconds delay{0};       ///< before the restart
  RestartHistory history{};                 ///< this attempt included
  std::string reason;                       ///< for the operator

  bool operator==(const RestartDecision&) const = default;
};

/// `history` of the attempts before.
RestartDecision decide_after_attempt(const AttemptOutcome& outcome, const RestartHistory& history,
                                     std::chrono::steady_clock::time_point now,
                                     const RestartSettings& settings);

/// Nothing if there is a window, which gives them back.
std::optional<int> restarts_left(int used, const RestartSettings& settings);

/// The failed workers, root cause first: workers that failed on their own before those that failed
/// because a peer did (their error says so) or that the agent had stopped, each group in the order
/// of notice. Workers that ended as asked, by the signal with which they were stopped, are left out
/// unless nobody else failed.
std::vector<WorkerExited> failures_root_cause_first(const std::vector<WorkerExited>& exits);

}  // namespace ddprun
