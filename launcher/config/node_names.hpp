// Expands lists of machine names in Slurm's format: "gpu[001-064,070],login". Pure.
#pragma once

#include "launcher/cli/option_values.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Maximum number of names, above the size of any cluster; detects typing errors.
constexpr std::size_t kNodeNamesMax = 16'384;

/// Returns all names in the order of the text. Numbers that begin with 0 keep their width. Names
/// consist of ASCII letters, digits and - . _ : %, and do not begin with '-'.
Parsed<std::vector<std::string>> expand_node_names(std::string_view text);

}  // namespace ddprun
