// Separates root causes from consequences: when one rank fails in a collective, all others fail
// with errors about it. Pure functions of error messages and output. The result is a heuristic; it
// decides only the order of failures in reports, and how long the agent waits for the root cause.
#pragma once

#include "launcher/report/event.hpp"

#include <string_view>
#include <vector>

namespace ddprun {

/// Returns true if the message of an exception or error file reports the failure of another worker.
/// Recognises messages of the worker runtime, Gloo and NCCL.
bool blames_a_peer(std::string_view message);

/// Returns true if the message of the worker runtime reports a timeout that passed before all ranks
/// had entered a collective.
bool names_late_ranks(std::string_view message);

/// Returns true if a worker ended because another one failed: according to its error file, or to
/// the last lines of its standard error if it has no error file and was not killed by a signal
/// other than its own SIGABRT.
bool is_victim_of_a_peer(const WorkerExited& exit);

/// Returns the failed workers, root cause first: workers that failed on their own before those that
/// failed because of a peer or that the agent had stopped, each group in the order of `exits`.
/// Leaves out workers that ended by the signal with which the agent stopped them, unless no other
/// failed.
std::vector<WorkerExited> failures_root_cause_first(const std::vector<WorkerExited>& exits);

}  // namespace ddprun
