// Which machine starts which: the tree of a start by ssh. Pure.
#pragma once

#include <cstddef>
#include <vector>

namespace ddprun::ssh {

/// What one child of a machine has to do: be a node itself and start those below it.
struct Branch {
  std::size_t node = 0;
  std::vector<std::size_t> below;

  bool operator==(const Branch&) const = default;
};

/// At most `fan_out` branches that hold all of `nodes`, in their order and as even as can be.
std::vector<Branch> plan_branches(const std::vector<std::size_t>& nodes, std::size_t fan_out);

}  // namespace ddprun::ssh
