// The order in which the workers of an attempt are stopped: stacks if the plan asks for them, the
// signal, the grace period, stacks, SIGKILL, a warning, and finally abandonment of workers that the
// kernel does not end. Pure: the caller carries out the steps and supplies the time.
#pragma once

#include "launcher/plan/launch_plan.hpp"
#include "launcher/stacks/stack_means.hpp"
#include "rendezvous/base/run_clock.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun {

/// Time limits for descendants and killed processes. A process that hangs in the kernel, where
/// signals do not interrupt it, must not prevent the end of the run.
struct KilledLimits {
  /// Time in which descendants may end by themselves. Delays a restart.
  std::chrono::milliseconds own_end = std::chrono::milliseconds(100);
  std::chrono::milliseconds warning_after = std::chrono::seconds(5);
  std::chrono::milliseconds abandoned_after = std::chrono::seconds(60);  ///< after the warning
};

class StopSequence {
 public:
  using Time = RunClock::time_point;

  /// Take stacks, then call stacks_taken().
  struct TakeStacks {
    StackMoment moment;
  };
  /// Send `signal` to the workers.
  struct Signal {
    int signal = 0;
  };
  struct Kill {
    std::string reason;
  };
  /// Report the workers that SIGKILL has not ended yet.
  struct Warn {};
  /// Treat the remaining workers as ended.
  struct Abandon {};
  using Step = std::variant<TakeStacks, Signal, Kill, Warn, Abandon>;
  using Steps = std::vector<Step>;  ///< in order; TakeStacks is the last one

  enum class Phase {
    running,
    stacks_before_signal,
    grace_period,
    stacks_before_kill,
    killed,
    warned,
    abandoned
  };

  StopSequence(StacksWhen stacks, KilledLimits limits) : stacks_(stacks), limits_(limits) {}

  /// Sets the ranks whose stacks are taken before the signal, unless the plan takes none. Call
  /// before request().
  void set_first_stacks(StackScope scope) { first_stacks_ = std::move(scope); }

  /// Requests a stop. A repeated request with a shorter grace period shortens it; without a grace
  /// period the workers are killed at once and no stacks are taken.
  [[nodiscard]] Steps request(Time now, int signal, std::chrono::milliseconds grace);

  /// Continues after a TakeStacks step.
  [[nodiscard]] Steps stacks_taken(Time now);

  /// All workers that have not ended have been killed, because they hang: a stop does not wait for
  /// the end of the grace period.
  void only_killed_left(Time now);

  /// Continues when deadline() has passed; no steps before. `are_stuck`: all workers that have not
  /// ended hang in the kernel, where SIGKILL does not end them.
  [[nodiscard]] Steps advance(Time now, bool are_stuck);

  std::optional<Time> deadline() const { return deadline_; }
  Phase phase() const { return phase_; }
  bool has_signalled() const { return phase_ >= Phase::grace_period; }
  bool has_killed() const { return phase_ >= Phase::killed; }

  /// Returns true if stacks are still to be taken before the signal.
  bool expects_stacks_before_signal() const { return takes_stacks_first() && !has_signalled(); }

  /// Ends the sequence: no further steps.
  void close();

 private:
  bool takes_stacks_first() const;
  Steps send_signal(Time now, int signal, std::chrono::milliseconds grace);
  Step kill(Time now, std::chrono::milliseconds grace);

  StacksWhen stacks_;
  KilledLimits limits_;
  std::optional<StackScope> first_stacks_;
  Phase phase_ = Phase::running;
  int signal_ = 0;                      ///< of the last request
  std::chrono::milliseconds grace_{0};  ///< the shortest requested
  bool has_killed_all_ = false;         ///< by a Kill step
  std::optional<Time> deadline_;
};

}  // namespace ddprun
