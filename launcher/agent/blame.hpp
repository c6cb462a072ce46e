// Whose doing a worker's failure is: in a collective all ranks fail when one does, and those that
// only say that another one has gone are its victims. Pure functions over what workers leave behind
// in words; no more than a guess, which decides whom a report names first and for whom the agent
// waits a moment, nothing else.
#pragma once

#include "launcher/report/event.hpp"

#include <string_view>
#include <vector>

namespace ddprun {

/// Whether this message, of an exception or from an error file, says that another worker failed:
/// the worker runtime's, Gloo's and NCCL's words are known.
bool blames_a_peer(std::string_view message);

/// Whether this message of the worker runtime says that its timeout passed before other ranks had
/// entered a collective.
bool names_late_ranks(std::string_view message);

/// Whether a worker ended because another one failed: by its error file, or by the last lines of
/// its standard error if it recorded nothing and was not killed by a signal other than its own
/// SIGABRT.
bool is_victim_of_a_peer(const WorkerExited& exit);

/// Returns the failed workers, root cause first: workers that failed on their own before those that
/// failed because of a peer or that the agent had stopped, each group in the order of `exits`.
/// Leaves out workers that ended by the signal with which the agent stopped them, unless no other
/// failed.
std::vector<WorkerExited> failures_root_cause_first(const std::vector<WorkerExited>& exits);

}  // namespace ddprun
