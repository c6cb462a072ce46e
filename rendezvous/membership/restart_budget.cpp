#include "rendezvous/membership/restart_budget.hpp"

#include <algorithm>

namespace ddprun::membership {

namespace {

std::chrono::milliseconds delay_after(int fast_failures, const RestartSettings& settings) {
  if (fast_failures <= settings.free_fast_failures) return std::chrono::milliseconds(0);
  auto delay = settings.first_delay;
  for (int i = settings.free_fast_failures + 1; i < fast_failures && delay < settings.longest_delay;
       ++i)
    delay *= 2;
  return std::min(delay, settings.longest_delay);
}

std::string describe_limit(int max_restarts) {
  if (max_restarts == 0) return "--max_restarts is 0";
  if (max_restarts == 1) return "the only restart is used";
  return "all " + std::to_string(max_restarts) + " restarts are used";
}

}  // namespace

std::optional<int> restarts_left(int used, const RestartSettings& settings) {
  if (settings.window.count() > 0) return std::nullopt;
  return settings.max_restarts - used;
}

BudgetDecision spend_restart(const RestartHistory& history, const std::string& cause,
                             std::chrono::duration<double> ran,
                             std::chrono::steady_clock::time_point now,
                             const RestartSettings& settings) {
  BudgetDecision decision{.history = history};
  auto& after = decision.history;
  after.fast_failures = ran < settings.fast_failure ? history.fast_failures + 1 : 0;
  const bool has_window = settings.window.count() > 0;
  while (!after.recent.empty() && after.recent.front() + settings.window <= now) {
    after.recent.pop_front();
  }
  const int used = has_window ? static_cast<int>(after.recent.size()) : history.restarts;
  if (used >= settings.max_restarts) {
    decision.reason = cause + "; " + describe_limit(settings.max_restarts);
    return decision;
  }
  decision.may_restart = true;
  decision.delay = delay_after(after.fast_failures, settings);
  ++after.restarts;
  if (has_window) after.recent.push_back(now);
  decision.reason = cause + "; restart " + std::to_string(used + 1) + " of " +
                    std::to_string(settings.max_restarts);
  if (decision.delay.count() > 0) {
    decision.reason +=
        ", delayed after " + std::to_string(after.fast_failures) + " fast failures in a row";
  }
  return decision;
}

}  // namespace ddprun::membership
