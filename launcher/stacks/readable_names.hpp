// Names of functions as people read them. A worker's library may have names that are made to harm
// their reader, so a child process with limits reads them. For the symbol reader: a process that
// reaps children which it does not know, as the agent does, must not call this.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>

namespace ddprun {

/// For all names together. The demangler takes microseconds for a usual one.
inline constexpr std::chrono::milliseconds kDemangleTimeout = std::chrono::seconds(1);

/// For each symbol "ddprun::train(int)" if it is "_ZN6ddprun5trainEi", and other names as they are;
/// both cut to a length that a person reads. A name stays as it is, too, if the demangler needs
/// more than 50 ms or 64 MiB for it, or if the timeout has passed. Blocks until then at most.
std::map<std::string, std::string> readable_names(
    const std::set<std::string>& symbols, std::chrono::milliseconds timeout = kDemangleTimeout);

}  // namespace ddprun
