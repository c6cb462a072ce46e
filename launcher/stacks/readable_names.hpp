// Demangles the names of functions. A worker's library may contain names that attack the demangler,
// so a child process with limits runs it. For the symbol reader: a process that reaps unknown
// children, as the agent does, must not call this.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>

namespace ddprun {

/// Timeout for all names together. The demangler takes microseconds for a typical name.
inline constexpr std::chrono::milliseconds kDemangleTimeout = std::chrono::seconds(1);

/// Returns "ddprun::train(int)" for the symbol "_ZN6ddprun5trainEi", and other names unchanged; all
/// shortened to a readable length. A name is also unchanged if the demangler needs more than 50 ms
/// or 64 MiB for it, or after the timeout. Blocks until the timeout at most.
std::map<std::string, std::string> readable_names(
    const std::set<std::string>& symbols, std::chrono::milliseconds timeout = kDemangleTimeout);

}  // namespace ddprun
