#include "launcher/agent/restart_policy.hpp"

#include "launcher/agent/blame.hpp"
#include "launcher/report/event_text.hpp"

#include <algorithm>

namespace ddprun {

namespace {

bool is_victim(const WorkerExited& exit) {
  return exit.was_stopped || is_victim_of_a_peer(exit);
}

std::chrono::milliseconds delay_after(int fast_failures, const RestartSettings& settings) {
  auto delay = settings.first_delay;
  for (int i = settings.free_fast_failures + 1; i < fast_failures && delay < settings.longest_delay;
       ++i)
    delay *= 2;
  if (fast_failures <= settings.free_fast_failures) return std::chrono::milliseconds(0);
  return std::min(delay, settings.longest_delay);
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

RestartDecision decide_after_attempt(const AttemptOutcome& outcome,
                                     const RestartSettings& settings) {
  using Action = RestartDecision::Action;
  if (outcome.was_interrupted) {
    return {.action = Action::finish,
            .result = RunResult::interrupted,
            .reason = "interrupted by a signal"};
  }
  const auto failures = failures_root_cause_first(outcome.exits);
  if (failures.empty()) {
    return {.action = Action::finish,
            .result = RunResult::succeeded,
            .reason = "all workers succeeded"};
  }
  const WorkerExited& cause = failures.front();
  const auto ran = std::chrono::duration<double>(cause.ran_seconds);
  const int fast_failures = ran < settings.fast_failure ? outcome.fast_failures_before + 1 : 0;
  if (outcome.attempt >= settings.max_restarts) {
    return {.action = Action::finish,
            .result = RunResult::failed,
            .fast_failures = fast_failures,
            .reason = describe_failure(cause) + "; no restarts left of " +
                      std::to_string(settings.max_restarts)};
  }
  RestartDecision decision{.action = Action::restart,
                           .result = RunResult::failed,
                           .delay = delay_after(fast_failures, settings),
                           .fast_failures = fast_failures,
                           .reason = describe_failure(cause) + "; restart " +
                                     std::to_string(outcome.attempt + 1) + " of " +
                                     std::to_string(settings.max_restarts)};
  if (decision.delay.count() > 0) {
    decision.reason += " after a pause, since it was fast failure number " +
                       std::to_string(fast_failures) + " in a row";
  }
  return decision;
}

}  // namespace ddprun
