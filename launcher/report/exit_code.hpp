// The exit codes of ddprun; the table in the man page is this one in words.
#pragma once

#include "launcher/plan/launch_plan.hpp"
#include "launcher/report/event.hpp"

#include <vector>

namespace ddprun {

inline constexpr int kExitSuccess = 0;
inline constexpr int kExitFailure = 1;  ///< a worker failed, or ddprun itself could not go on
inline constexpr int kExitUsage = 2;    ///< the command line, a variable or a file name is wrong
inline constexpr int kExitUnfit = 3;    ///< --preflight: something is amiss with this node
inline constexpr int kExitNotStarted = 126;  ///< --exit_code=worker: a worker could not be executed
inline constexpr int kExitSignalBase = 128;  ///< plus the signal's number

/// `failures` root cause first; `interrupting_signal` is the one that ended an interrupted run.
int exit_code_for(RunResult result, ExitCodePolicy policy,
                  const std::vector<WorkerExited>& failures, int interrupting_signal);

/// The exit that a worker counts as when it could not be started on a node whose ranks begin with
/// `first_rank`: now, with exit code kExitNotStarted.
WorkerExited exit_of(const WorkerNotStarted& failure, int first_rank);

/// Of a run whose output the console has refused: who asked for it has not got it, so success is
/// none, which is said on standard error, if that is there.
int exit_code_without_output(int code) noexcept;

}  // namespace ddprun
