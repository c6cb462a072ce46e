// Decides whether a failed round is restarted. Pure functions, no clock.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>

namespace ddprun::membership {

struct RestartSettings {
  int max_restarts = 0;
  /// Restarts older than this do not count against max_restarts; 0: all count.
  std::chrono::milliseconds window{0};

  /// A round that fails within this time after its start is a fast failure: its cause probably
  /// persists.
  std::chrono::milliseconds fast_failure = std::chrono::seconds(2);
  /// Consecutive fast failures that are restarted without delay.
  int free_fast_failures = 2;
  /// Delay of the next restart; doubles with each further fast failure, up to longest_delay.
  std::chrono::milliseconds first_delay = std::chrono::milliseconds(500);
  std::chrono::milliseconds longest_delay = std::chrono::seconds(30);

  bool operator==(const RestartSettings&) const = default;
};

/// History of failures.
struct RestartHistory {
  int restarts = 0;       ///< total number
  int fast_failures = 0;  ///< current number of consecutive fast failures
  /// Times of the restarts that may still count, oldest first; used only with a window.
  std::deque<std::chrono::steady_clock::time_point> recent{};

  bool operator==(const RestartHistory&) const = default;
};

/// Returns nullopt if there is a window.
std::optional<int> restarts_left(int used, const RestartSettings& settings);

struct BudgetDecision {
  bool may_restart = false;
  std::chrono::milliseconds delay{0};
  std::string reason{};      ///< reason for the operator; begins with the cause
  RestartHistory history{};  ///< updated history
};

/// `cause`: description of the failure. `ran`: run time of the failed worker.
BudgetDecision spend_restart(const RestartHistory& history, const std::string& cause,
                             std::chrono::duration<double> ran,
                             std::chrono::steady_clock::time_point now,
                             const RestartSettings& settings);

}  // namespace ddprun::membership
