#include "launcher/agent/restart_policy.hpp"

#include "launcher/agent/blame.hpp"
#include "launcher/report/event_text.hpp"
#include "rendezvous/base/signal_name.hpp"

#include <algorithm>

namespace ddprun {

namespace {

bool is_victim(const WorkerExited& exit) {
  return exit.was_stopped || is_victim_of_a_peer(exit);
}

}  // namespace

std::vector<WorkerExited> failures_root_cause_first(const std::vector<WorkerExited>& exits) {
  std::vector<WorkerExited> failures;
  std::copy_if(exits.begin(), exits.end(), std::back_inserter(failures),
               [](const WorkerExited& exit) { return exit.failed() && !exit.was_stopped; });
  if (failures.empty()) {
    std::copy_if(exits.begin(), exits.end(), std::back_inserter(failures),
                 [](const WorkerExited& exit) { return exit.failed(); });
  }
  std::stable_partition(failures.begin(), failures.end(),
                        [](const WorkerExited& exit) { return !is_victim(exit); });
  return failures;
}

std::optional<int> restarts_left(int used, const RestartSettings& settings) {
  if (settings.window.count() > 0) return std::nullopt;
  return settings.max_restarts - used;
}

RestartDecision decide_after_attempt(const AttemptOutcome& outcome, const RestartHistory& history,
                                     std::chrono::steady_clock::time_point now,
                                     const RestartSettings& settings) {
  using Action = RestartDecision::Action;
  if (outcome.signal != 0) {
    return {.action = Action::finish,
            .result = RunResult::interrupted,
            .reason = "interrupted by " + signal_name(outcome.signal)};
  }
  const auto failures = failures_root_cause_first(outcome.exits);
  if (failures.empty()) {
    return {.action = Action::finish,
            .result = RunResult::succeeded,
            .reason = "all workers succeeded"};
  }
  const WorkerExited& cause = failures.front();
  if (outcome.still_running) {
    // Both attempts would write the same files.
    return {.action = Action::finish,
            .result = RunResult::failed,
            .reason = describe_failure(cause) +
                      (cause.still_running ? "; no restart beside it"
                                           : "; no restart, because " + *outcome.still_running)};
  }
  const auto spent =
      membership::spend_restart(history, describe_failure(cause),
                                std::chrono::duration<double>(cause.ran_seconds), now, settings);
  return {.action = spent.may_restart ? Action::restart : Action::finish,
          .result = RunResult::failed,
          .delay = spent.delay,
          .history = spent.history,
          .reason = spent.reason};
}

}  // namespace ddprun
