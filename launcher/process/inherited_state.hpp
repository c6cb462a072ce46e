// Handles the state that ddprun inherits: standard streams, signals and limits, and the system
// calls that a sandbox permits. For main().
#pragma once

#include <optional>
#include <string>

namespace ddprun {

/// Opens closed standard streams, unblocks all signals and resets their dispositions. SIGHUP stays
/// ignored (nohup), and so do job control signals (a parent without a terminal).
void reset_inherited_state() noexcept;

/// If DDPRUN_PARENT is set, requests SIGTERM for the death of the parent, which must have that
/// process ID; if it has died already, ends this process by SIGTERM. Removes the variable, which
/// workers do not inherit.
void end_with_parent() noexcept;

/// Raises the soft limit: each worker uses six descriptors during its start and one or two
/// connections to the store, so the usual limit of 1,024 suffices only for some hundred workers.
/// Workers get the original limit.
void raise_limit_of_open_files() noexcept;

/// Probes /proc and the system calls without which a run would hang, spin or report wrong results.
/// Returns the first problem with its remedy, or nullopt.
std::optional<std::string> system_problem();

}  // namespace ddprun
