// Conversion between names and numbers of signals, as operators write and read them. Pure;
// thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Returns "SIGKILL" for 9, "SIGRTMIN+3" for real-time signals, "signal 77" for unknown numbers.
std::string signal_name(int signal);

/// Returns the number of "SIGKILL", "KILL" or "sigkill"; nothing if there is no such signal.
std::optional<int> signal_number(std::string_view name);

/// Returns the names of all named signals, starting with "SIGHUP".
std::vector<std::string> signal_names();

}  // namespace ddprun
