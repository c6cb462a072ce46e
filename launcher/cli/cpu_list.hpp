// Lists of CPUs in the kernel's format, such as "0-3,8,10-11". Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Returns the CPUs of a list in the order of the text; empty if the text is not a list.
std::vector<int> parse_cpu_list(std::string_view text);

/// Returns a list as text for reports, such as "0-3,8".
std::string format_cpu_list(const std::vector<int>& cpus);

}  // namespace ddprun
