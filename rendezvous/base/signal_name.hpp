// Signals by name and by number, as operators write and read them. Pure functions; any thread may
// call.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// "SIGKILL" for 9, "SIGRTMIN+3" for a real-time signal, "signal 77" for what is none.
std::string signal_name(int signal);

/// The number of "SIGKILL", "KILL" or "sigkill"; nothing if there is no such signal.
std::optional<int> signal_number(std::string_view name);

/// The names of all signals that have one of their own, "SIGHUP" first.
std::vector<std::string> signal_names();

}  // namespace ddprun
