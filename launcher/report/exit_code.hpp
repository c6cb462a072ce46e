// Exit codes of ddprun. The man page has the same table.
#pragma once

#include "launcher/plan/launch_plan.hpp"
#include "launcher/report/event.hpp"

#include <vector>

namespace ddprun {

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitFailure = 1;       ///< a worker or ddprun itself failed
inline constexpr int kExitUsage = 2;         ///< invalid command line, variable or file name
inline constexpr int kExitUnfit = 3;         ///< --preflight: this node failed the check
inline constexpr int kExitNotStarted = 126;  ///< --exit_code=worker: a worker could not be executed
inline constexpr int kExitSignalBase = 128;  ///< added to the signal's number

/// `failures`: root cause first. `interrupting_signal`: the signal that ended an interrupted run.
int exit_code_for(RunResult result, ExitCodePolicy policy,
                  const std::vector<WorkerExited>& failures, int interrupting_signal);

/// Returns the exit of a worker that could not be started: the current time and exit code
/// kExitNotStarted. `first_rank` is the first rank of its node.
WorkerExited exit_of(const WorkerNotStarted& failure, int first_rank);

/// Returns the exit code of a run whose output could not be written completely: success becomes
/// kExitFailure, with a message on standard error.
int exit_code_without_output(int code) noexcept;

}  // namespace ddprun
