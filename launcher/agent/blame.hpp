// Separates root causes from consequences: when one rank fails in a collective, the others fail
// with errors about that rank. Pure functions of error messages and output. The heuristic decides
// only the order of failures in reports and the time to wait for the root cause.
#pragma once

#include "launcher/report/event.hpp"

#include <optional>
#include <string_view>
#include <vector>

namespace ddprun {

/// Returns true if a worker that recorded this error failed because another worker failed. Without
/// a code, decides by the message: errors of Gloo and NCCL are recognized by their texts.
bool blames_a_peer(std::optional<Errc> code, std::string_view message);

/// Returns true if a worker ended because another worker failed. Decides by its error file. Without
/// an error file, decides by the last lines of its standard error, unless a signal other than its
/// own SIGABRT killed it.
bool is_victim_of_a_peer(const WorkerExited& exit);

/// WorkerExited::ended_before of a worker whose end made others fail.
inline constexpr const char* kBeforeTheOthers =
    "before the others, which lost a connection to a peer";

/// Sets WorkerExited::ended_before of a worker that exited with code 0 before any failure if it is
/// the only one and all failed workers blame a peer. `exits` are in the order of their detection.
void note_early_exit(std::vector<WorkerExited>& exits);

/// Returns the failed workers, root cause first: workers that failed on their own, then workers
/// that failed because of a peer or were stopped by the agent. Each group is in the order of
/// `exits`. Omits workers that ended by the signal with which the agent stopped them, unless no
/// other worker failed.
std::vector<WorkerExited> failures_root_cause_first(const std::vector<WorkerExited>& exits);

}  // namespace ddprun
