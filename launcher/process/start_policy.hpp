// Whether a failed start of a worker is retried. Pure: no clock, no processes.
#pragma once

#include "launcher/process/process_start.hpp"

#include <chrono>

namespace ddprun {

/// Longer than killed processes take to release their resources or a program takes to be copied;
/// much shorter than workers on other nodes wait for a peer (join_timeout, 5 min).
inline constexpr std::chrono::seconds kStartRetryLimit{10};
/// The first pause: most errors pass as soon as a process of the last attempt has been reaped.
inline constexpr std::chrono::milliseconds kFirstStartPause{20};
/// Each pause is twice the last one, up to this.
inline constexpr std::chrono::milliseconds kLongestStartPause{1000};

/// A failed start of a worker, and the failures before it in the same attempt.
struct FailedStart {
  StartFailure failure;
  bool is_restart = false;  ///< workers have been started on this node before, in the same run
  int tries = 1;            ///< failed so far, at least 1
  std::chrono::milliseconds elapsed{0};  ///< since the first of them
  std::chrono::milliseconds limit = kStartRetryLimit;
};

struct StartDecision {
  enum class Action {
    retry,        ///< after `pause`
    fail_worker,  ///< the error persists: as if the worker had crashed, which costs a restart
    end_run,      ///< the error cannot pass
  };

  Action action = Action::end_run;
  std::chrono::milliseconds pause{0};

  bool operator==(const StartDecision&) const = default;
};

StartDecision decide_after_failed_start(const FailedStart& start);

}  // namespace ddprun
