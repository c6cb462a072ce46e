// Decides whether a failed start of a worker is retried. Pure: no clock, no processes.
#pragma once

#include "launcher/process/process_start.hpp"

#include <chrono>

namespace ddprun {

/// Time limit of retries. Killed processes release their resources earlier, and programs are copied
/// earlier. Much shorter than workers on other nodes wait for a peer (join_timeout, 5 min).
inline constexpr std::chrono::seconds kStartRetryLimit{10};
/// First pause. Most errors disappear once a process of the last attempt has been reaped.
inline constexpr std::chrono::milliseconds kFirstStartPause{20};
/// Maximum pause. Each pause is twice as long as the previous one.
inline constexpr std::chrono::milliseconds kLongestStartPause{1000};

/// A failed start of a worker, and the failures before it in the same attempt.
struct FailedStart {
  StartFailure failure;
  bool is_restart = false;  ///< workers have already been started on this node in this run
  int tries = 1;            ///< number of failed starts; at least 1
  std::chrono::milliseconds elapsed{0};  ///< time since the first failure
  std::chrono::milliseconds limit = kStartRetryLimit;
};

struct StartDecision {
  enum class Action {
    retry,        ///< after `pause`
    fail_worker,  ///< the error persists: counts as a crash of the worker, and uses up a restart
    end_run,      ///< the error is permanent
  };

  Action action = Action::end_run;
  std::chrono::milliseconds pause{0};

  bool operator==(const StartDecision&) const = default;
};

StartDecision decide_after_failed_start(const FailedStart& start);

}  // namespace ddprun
