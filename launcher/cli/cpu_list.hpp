// Lists of CPUs as the kernel writes them, e.g. "0-3,8,10-11". Pure functions; any thread may call.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// The CPUs of a list, in its order; empty if the text is not one.
std::vector<int> parse_cpu_list(std::string_view text);

/// The reverse, for reports: "0-3,8".
std::string format_cpu_list(const std::vector<int>& cpus);

}  // namespace ddprun
