// Whether a failed round is followed by another: pure functions, no clock.
#pragma once

#include <chrono>
#include <deque>
#include <optional>
#include <string>

namespace ddprun::membership {

struct RestartSettings {
  int max_restarts = 0;
  /// Only restarts within this time count against max_restarts; 0: all do.
  std::chrono::milliseconds window{0};

  /// A round that fails sooner than this after its start has failed fast: its cause is likely to be
  /// there still.
  std::chrono::milliseconds fast_failure = std::chrono::seconds(2);
  /// So many fast failures in a row are restarted at once: one or two crashes are worth no wait.
  int free_fast_failures = 2;
  /// The next one waits this long, and each further one twice as long, up to the longest.
  std::chrono::milliseconds first_delay = std::chrono::milliseconds(500);
  std::chrono::milliseconds longest_delay = std::chrono::seconds(30);

  bool operator==(const RestartSettings&) const = default;
};

/// What is remembered of the failures before.
struct RestartHistory {
  int restarts = 0;       ///< all there have been
  int fast_failures = 0;  ///< consecutive ones up to now
  /// The times of the restarts that may still count, oldest first; only with a window.
  std::deque<std::chrono::steady_clock::time_point> recent{};

  bool operator==(const RestartHistory&) const = default;
};

/// Returns nothing if there is a window, after which restarts no longer count.
std::optional<int> restarts_left(int used, const RestartSettings& settings);

struct BudgetDecision {
  bool may_restart = false;
  std::chrono::milliseconds delay{0};
  std::string reason{};      ///< for the operator; begins with the cause
  RestartHistory history{};  ///< afterwards
};

/// `cause` in words, and how long the failed worker had run.
BudgetDecision spend_restart(const RestartHistory& history, const std::string& cause,
                             std::chrono::duration<double> ran,
                             std::chrono::steady_clock::time_point now,
                             const RestartSettings& settings);

}  // namespace ddprun::membership
