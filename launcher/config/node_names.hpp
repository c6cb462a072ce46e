// Expands lists of machine names in Slurm's format: "gpu[001-064,070],login". Pure.
#pragma once

#include "launcher/cli/option_values.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

/// Limit that detects typing errors; above the size of any cluster.
constexpr std::size_t kNodeNamesMax = 16'384;

/// Returns all names, in the order of the text. A number that begins with 0 keeps its width. A name
/// consists of ASCII letters, digits and - . _ : %, and does not begin with '-'.
Parsed<std::vector<std::string>> expand_node_names(std::string_view text);

}  // namespace ddprun
