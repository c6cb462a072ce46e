// Separates root causes from consequences: when one rank fails in a collective, all others fail
// with errors about it. Pure functions of error messages and output. The result is a heuristic; it
// decides only the order of failures in reports, and how long the agent waits for the root cause.
#pragma once

#include "launcher/report/event.hpp"

#include <optional>
#include <string_view>
#include <vector>

namespace ddprun {

/// Returns true if a worker that recorded this error failed because another worker failed. Without
/// a code, the message decides: errors of Gloo and NCCL are recognized by their texts.
bool blames_a_peer(std::optional<Errc> code, std::string_view message);

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
