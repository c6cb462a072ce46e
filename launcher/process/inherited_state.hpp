// What ddprun's own process inherits: standard streams, signals and limits from its parent, and the
// system calls that a sandbox around it permits. For main().
#pragma once

#include <optional>
#include <string>

namespace ddprun {

/// Opens standard streams that are closed, unblocks all signals and gives them their default
/// dispositions. SIGHUP stays ignored (nohup) and so do the signals of job control (a parent
/// without a terminal).
void reset_inherited_state() noexcept;

/// Each worker takes six descriptors while it starts and has one or two connections to the store;
/// the usual soft limit of 1,024 ends at some hundred workers. The workers get the old one back.
void raise_limit_of_open_files() noexcept;

/// Probes the system calls whose refusal would make a run hang, spin or report a false result, and
/// /proc. Returns the first problem with its remedy, or nothing.
std::optional<std::string> system_problem();

}  // namespace ddprun
